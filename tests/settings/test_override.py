"""Environment variables in place of keys: each key has one, typed as it is; a wrong one is named with its like."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import SettingsError
from trimtab.settings import AgentSettings, DaemonSettings, load
from trimtab.settings.load import load_whole
from trimtab.settings.override import variables
from trimtab.settings.reference import KINDS, tables


def daemon(path: Path | None = None, **environment: str) -> DaemonSettings:
    return load(path, DaemonSettings, environment=environment)


def test_a_variable_beats_the_file_and_the_file_the_default(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text('cluster = "file"\n[people]\nlisten = "127.0.0.1:1"\nsession_seconds = 60\n')
    found = load_whole(path, DaemonSettings, environment={"TRIMTAB_DAEMON__PEOPLE__LISTEN": "127.0.0.1:2"})
    assert (found.settings.cluster, found.settings.people.listen) == ("file", "127.0.0.1:2")
    assert found.origins == {
        "cluster": "file",
        "people.listen": "environment TRIMTAB_DAEMON__PEOPLE__LISTEN",
        "people.session_seconds": "file",
    }


def test_an_agent_needs_no_file():
    environment = {"TRIMTAB_AGENT__NODE": "gpu-07", "TRIMTAB_AGENT__DAEMON_URLS": "https://a:1, https://b:2"}
    found = load(None, AgentSettings, environment=environment)
    assert (found.node, found.daemon_urls) == ("gpu-07", ("https://a:1", "https://b:2"))


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("DETECT__SPAN_SECONDS", "60", ("detect", "span_seconds"), 60.0),
        ("DETECT__SPAN_SECONDS", "0.5", ("detect", "span_seconds"), 0.5),
        ("PLAN__MOVES_MAX", "2", ("plan", "moves_max"), 2),
        ("PLAN__CORDONED_MAX", "3", ("plan", "cordoned_max"), 3),
        ("INGEST__ALLOW_PLAINTEXT", "true", ("ingest", "allow_plaintext"), True),
        ("INGEST__ALLOW_PLAINTEXT", "False", ("ingest", "allow_plaintext"), False),
        ("CLUSTER", "007", ("cluster",), "007"),
        ("ISSUE__MODE", "approve", ("issue", "mode"), "approve"),
        ("METRICS__ALLOW_FROM", "10.0.0.0/8,10.1.1.1", ("metrics", "allow_from"), ("10.0.0.0/8", "10.1.1.1")),
        ("METRICS__ALLOW_FROM", '["10.0.0.0/8"]', ("metrics", "allow_from"), ("10.0.0.0/8",)),
        ("ISSUE__RULES__EVACUATE", "act", ("issue", "rules"), {"evacuate": "act"}),
        ("ISSUE__RULES", '{evacuate = "act"}', ("issue", "rules"), {"evacuate": "act"}),
        ("LOG__LEVEL", "debug", ("log", "level"), "debug"),
    ],
)
def test_a_variable_is_typed_as_its_key(variable: str, text: str, key: tuple[str, ...], value: object):
    found = daemon(**{f"TRIMTAB_DAEMON__{variable}": text})
    for name in key:
        found = getattr(found, name)
    assert found == value


def test_a_table_of_the_sites_own_name_is_found_as_the_file_writes_it(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text('[oncall.targets.Ops-Pager]\nkind = "pagerduty"\nrouting_key_file = "/key"\n')
    found = daemon(path, TRIMTAB_DAEMON__ONCALL__TARGETS__OPS_PAGER__LOCALE="zh-CN")
    assert list(found.oncall.targets) == ["Ops-Pager"]
    assert found.oncall.targets["Ops-Pager"].locale == "zh-CN"


def test_a_whole_target_can_come_from_the_environment():
    found = daemon(
        TRIMTAB_DAEMON__ONCALL__TARGETS__PAGER__KIND="pagerduty",
        TRIMTAB_DAEMON__ONCALL__TARGETS__PAGER__ROUTING_KEY_FILE="/key",
        TRIMTAB_DAEMON__SCRAPE__TARGETS='[{url = "http://a:9400/metrics", node = "gpu-01"}]',
    )
    assert type(found.oncall.targets["pager"]).__name__ == "PagerDutySettings"
    assert [target.node for target in found.scrape.targets] == ["gpu-01"]


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("TRIMTAB_DAEMON__PEOPLE__LISTN", "x", "Did you mean TRIMTAB_DAEMON__PEOPLE__LISTEN"),
        ("TRIMTAB_DAEMON_PEOPLE_LISTEN", "x", "sets nothing. Did you mean TRIMTAB_DAEMON__PEOPLE__LISTEN?"),
        ("TRIMTAB_PEOPLE__LISTEN", "x", "sets nothing. Did you mean TRIMTAB_DAEMON__PEOPLE__LISTEN?"),
        ("TRIMTAB_DEAMON__PEOPLE__LISTEN", "x", "sets nothing. Did you mean TRIMTAB_DAEMON__PEOPLE__LISTEN"),
        ("TRIMTAB_DAEMON__DETECT__SPAN_SECONDS", "long", "TRIMTAB_DAEMON__DETECT__SPAN_SECONDS: write a number"),
        ("TRIMTAB_DAEMON__PLAN__MOVES_MAX", "1.5", "TRIMTAB_DAEMON__PLAN__MOVES_MAX: Expected `int`"),
        ("TRIMTAB_DAEMON__INGEST__ALLOW_PLAINTEXT", "yes", "write true or false"),
        ("TRIMTAB_DAEMON__ISSUE__MODE", "bold", "environment TRIMTAB_DAEMON__ISSUE__MODE: Invalid enum value"),
        ("TRIMTAB_DAEMON__ONCALL__TARGETS__P__KIND", "pagerduty", "__P__KIND: Object missing required field"),
    ],
)
def test_a_wrong_variable_is_named_with_the_fix(variable: str, text: str, said: str):
    with pytest.raises(SettingsError) as caught:
        daemon(**{variable: text})
    assert variable in str(caught.value)
    assert said in str(caught.value)


def test_what_the_file_says_wrong_is_the_files(tmp_path: Path):
    path = tmp_path / "daemon.toml"
    path.write_text('[people]\nlissten = "127.0.0.1:1"\n')
    with pytest.raises(SettingsError, match=r"daemon\.toml: .*Did you mean listen"):
        daemon(path, TRIMTAB_DAEMON__PEOPLE__LISTEN="127.0.0.1:2")


@pytest.mark.parametrize(
    "variable",
    [
        "TRIMTAB_URL",
        "TRIMTAB_NODE",
        "TRIMTAB_TOKEN_FILE",
        "TRIMTAB_DAEMON_PORT",  # what Kubernetes sets in every pod beside a Service `trimtab-daemon`
        "TRIMTAB_DAEMON_SERVICE_HOST",
        "TRIMTAB_DAEMON_PORT_9740_TCP_ADDR",
        "TRIMTAB_AGENT__NODE",  # for the agent to judge: both may share one file of environment
        "HOME",
    ],
)
def test_what_is_no_setting_of_the_daemons_is_left_alone(variable: str):
    assert daemon(**{variable: "x"}) == DaemonSettings()


@pytest.mark.parametrize("name", KINDS)
def test_every_key_has_a_variable(name: str):
    kind = KINDS[name]
    names = set(variables(kind))
    wanted = {
        f"TRIMTAB_{name.upper()}__" + "__".join((*filter(None, table.name.split(".")), key.name)).upper()
        for table in tables(kind)
        if not table.is_repeated  # lists of tables are given whole, by the variable of the list
        for key in table.keys
    }
    assert len(wanted) > 20
    assert {one for one in wanted if one not in names} == set()
