"""Names and texts of strangers on the page of a real daemon, in Chromium: shown as they are, and no script ran."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
import requests
from tests.browser import CHROMIUM, INSTALL, Page, browsing
from tests.builders import a_reading, a_report, an_xid
from tests.security.hall import Hall
from tests.system.processes import CLUSTER, eventually

from trimtab.clock import SystemClock
from trimtab.outbound import session
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports

pytestmark = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=INSTALL)

RUNS = "document.documentElement.dataset.owned=1"
EVIL = f"<img/src=x/onerror={RUNS}>"
"""Without a blank, so that it can be a node's name."""
WORSE = f'"><script>{RUNS}</script><svg onload={RUNS}>' + "{{constructor.constructor('x')()}}[a](javascript:x)"


@pytest.fixture(scope="module")
def hall(shared_hall: Hall) -> Hall:
    return shared_hall


@pytest.fixture(scope="module")
def named(hall: Hall) -> Hall:
    """A node, its GPU and its kernel line, an alert and a person's reason, all of them markup."""
    now = SystemClock().now()
    gpu = a_reading(EVIL, 0)
    info = replace(gpu.info, model=WORSE, uuid=EVIL, serial=EVIL, vbios=EVIL, driver=EVIL)
    event = replace(an_xid(79, node=EVIL, index=0, at=now, boot_id=EVIL), gpu=EVIL, text=f"Xid 79 {WORSE}")
    made = a_report(
        EVIL, cluster=CLUSTER, spool_id="s", boot_id=EVIL, sampled_at=now, gpus=1, events=(event,), driver=EVIL,
        errors={"collector": WORSE},
    )  # fmt: skip
    made = replace(made, gpus=(replace(gpu, info=info, holder=f"{EVIL}/{EVIL}"),))
    with session(timeout_seconds=20.0, token=hall.daemon.token_of(EVIL)) as peer:
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
        answer = peer.post(f"{hall.daemon.ingest_url}/v1/reports", data=encode_reports([made]), headers=headers)
        assert answer.status_code == 200, answer.text
    eventually(lambda: hall.daemon.node(EVIL), said=hall.daemon.tail)
    labels = {"alertname": WORSE, "node": EVIL, "severity": EVIL, EVIL: EVIL}
    alert = {"labels": labels, "annotations": {"summary": WORSE}, "startsAt": now.isoformat(), "status": "firing"}
    heard = requests.post(
        f"{hall.url}/api/v1/webhooks/alertmanager", json={"alerts": [alert], "receiver": EVIL, "groupKey": WORSE},
        headers={"Authorization": f"Bearer {hall.credential('webhook')}"}, timeout=20,
    )  # fmt: skip
    assert heard.status_code == 200, heard.text
    asked = {"scope": "node", "name": EVIL, "reason": WORSE, "lasts_seconds": 3600.0}
    assert hall.daemon.ask("POST", "/api/v1/maintenance", asked).status_code == 200
    assert hall.daemon.ask("POST", "/api/v1/pause", {"reason": WORSE}).status_code == 200
    eventually(lambda: "onload" in hall.daemon.ask("GET", "/api/v1/findings").text, said=hall.daemon.tail)
    return hall


@pytest.fixture(scope="module")
def page(named: Hall) -> Iterator[Page]:
    link = named.daemon.ask("POST", "/api/v1/links", {}).json()["url"]
    with browsing() as browser:
        browser.open(link)
        browser.until("document.querySelector('#todo .row, #todo .empty') && document.body.dataset.role")
        yield browser


def views(hall: Hall) -> list[str]:
    numbers = [item.id for item in hall.daemon.board().findings]
    past = f"{SystemClock().now() - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    found = [f"/f/{number}" for number in numbers]
    return [
        "/",
        *found,
        "/incidents",
        "/queues",
        f"/job/{EVIL}/{EVIL}",
        f"/queue/{EVIL}",
        f"/?at={past}",
    ]


def test_on_no_view_does_a_name_run(page: Page, named: Hall) -> None:
    shown = 0
    for path in views(named):
        page.open(named.url + path)
        page.until("document.body.dataset.role && document.querySelector('#todo')")
        page.until("document.querySelector('#wrong .row, #wrong .empty, #detail h2, #detail .empty')")
        shown += "onerror" in str(page.ask("document.body.innerText"))
        assert page.ask("document.documentElement.dataset.owned") is None, path
        assert page.ask("document.querySelectorAll('body img, body script, body svg[onload]').length") == 0, path
        assert page.ask("document.querySelectorAll('a[href^=javascript]').length") == 0, path
    assert shown >= 3, "the names are shown as they are"
    assert [text for text in page.problems if "policy" in text.lower()] == []


def test_the_policy_holds_although_markup_should_get_in(page: Page, named: Hall) -> None:
    page.open(named.url + "/")
    page.until("document.querySelector('#todo')")
    put = f"document.querySelector('#todo').insertAdjacentHTML('beforeend', {json.dumps(EVIL.replace('/', ' '))})"
    page.ask(put)
    page.ask(f"document.body.append(Object.assign(document.createElement('script'), {{text: {json.dumps(RUNS)}}}))")
    page.until("[...document.querySelectorAll('#todo img')].every((one) => one.complete)")
    assert page.ask("document.documentElement.dataset.owned") is None
    assert [text for text in page.problems if "policy" in text.lower()] != []
    page.problems.clear()


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_the_digest_holds_no_markup_of_strangers(named: Hall, form: str) -> None:
    answer = named.daemon.ask("GET", f"/api/v1/digest/text?form={form}")
    assert answer.status_code == 200, answer.text
    text = answer.json()["text"]
    assert "<script" not in text
    assert "<img" not in text or form == "markdown"
