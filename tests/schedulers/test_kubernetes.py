"""The door: what is sent, TLS, proxies, credentials of every kind, watches, and sentences for what is set wrongly."""

from __future__ import annotations

import base64
import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.certificates import sign
from tests.schedulers.web import Asked, Reply, a_kubeconfig, a_web, document, refusal

import trimtab
from trimtab.errors import (
    SchedulerConflict,
    SchedulerGone,
    SchedulerRefused,
    SchedulerSilent,
    SchedulerUnavailable,
    SettingsError,
)
from trimtab.schedulers.connect import connect
from trimtab.schedulers.kubernetes import PatchKind, Resource
from trimtab.settings import KubernetesSettings


def settings(path: Path | str, **more: Any) -> KubernetesSettings:
    return KubernetesSettings(kubeconfig=str(path), request_timeout_seconds=5.0, **more)


def echo(asked: Asked) -> Reply:
    return document({"asked": asked.path})


def test_what_is_sent(tmp_path: Path) -> None:
    with a_web(echo) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user={"token": "secret-1"})))
        node = Resource(group="", version="v1", plural="nodes", is_namespaced=False).path(name="n")
        api.patch(node, [{"op": "test", "path": "/x", "value": 1}], PatchKind.JSON, {"dryRun": "All"})
        api.post("/apis/policy/v1/x", {"a": 1})
        api.delete(node, {"preconditions": {"uid": "u"}})
        api.get("/apis")
        api.close()
    patch, post, delete, discovery = web.asked
    assert (patch.method, patch.path) == ("PATCH", "/api/v1/nodes/n?dryRun=All")
    assert patch.headers["Content-Type"] == "application/json-patch+json"
    assert patch.headers["Authorization"] == "Bearer secret-1"
    assert patch.headers["User-Agent"] == f"trimtab/{trimtab.__version__}"
    assert "gzip" in patch.headers["Accept-Encoding"]
    assert json.loads(patch.body) == [{"op": "test", "path": "/x", "value": 1}]
    assert (post.headers["Content-Type"], json.loads(post.body)) == ("application/json", {"a": 1})
    assert json.loads(delete.body) == {"preconditions": {"uid": "u"}}
    assert "as=APIGroupDiscoveryList" in discovery.headers["Accept"]


def test_noes_of_the_server_and_of_what_is_no_api_server(tmp_path: Path) -> None:
    def reply(asked: Asked) -> Reply:
        if asked.path == "/html":
            return 200, {"Content-Type": "text/html"}, b"<html>log in</html>"
        if asked.path == "/moved":
            return 302, {"Location": "https://sso"}, b""
        if asked.path == "/bare":
            return 503, {}, b"upstream connect error"
        return refusal(409, "the object has been modified")

    with a_web(reply) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url)))
        with pytest.raises(SchedulerConflict, match="PUT /x: 409 the object has been modified"):
            api.put("/x", {})
        with pytest.raises(SchedulerUnavailable, match="is the server of the kubeconfig a Kubernetes API"):
            api.get("/html")
        with pytest.raises(SchedulerUnavailable, match="redirected to https://sso"):
            api.get("/moved")
        with pytest.raises(SchedulerUnavailable, match="503 upstream connect error"):
            api.raw("/bare")
        api.close()


def test_a_server_that_is_not_there_or_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    gate = threading.Event()

    def hang(asked: Asked) -> Reply:
        gate.wait(30)
        return document({})

    with a_web(hang) as web:
        path = a_kubeconfig(tmp_path, web.url)
        api = connect(KubernetesSettings(kubeconfig=str(path), request_timeout_seconds=0.2))
        with pytest.raises(SchedulerUnavailable, match=r"no answer from http.* within 0 s; whether it was done"):
            api.post("/x", {})
        gate.set()
    with pytest.raises(SchedulerUnavailable, match="cannot be reached"):
        api.get("/x")
    api.close()
    with pytest.raises(SchedulerUnavailable, match="has been closed"):
        api.get("/x")


def test_tls_names_the_ca_and_the_name_that_do_not_fit(tmp_path: Path) -> None:
    ca, other = sign("ca"), sign("other")
    ca.write(tmp_path, "ca")
    other.write(tmp_path, "other")
    sign("x", issuer=ca, names=("elsewhere.example",)).write(tmp_path, "good")
    tls = (tmp_path / "good.crt", tmp_path / "good.key")

    def door(**cluster: str) -> Any:
        return connect(settings(a_kubeconfig(tmp_path, web.url, cluster=cluster)))

    with a_web(echo, tls=tls) as web:
        trusting = door(**{"certificate-authority": str(tmp_path / "ca.crt")})
        assert trusting.get("/x") == {"asked": "/x"}
        data = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
        named = door(**{"certificate-authority-data": data, "tls-server-name": "elsewhere.example"})
        assert named.get("/x") == {"asked": "/x"}
        wrong = door(**{"certificate-authority": str(tmp_path / "other.crt")})
        with pytest.raises(SchedulerUnavailable, match="set the cluster's certificate-authority in the kubeconfig"):
            wrong.get("/x")
        misnamed = door(**{"certificate-authority": str(tmp_path / "ca.crt"), "tls-server-name": "nobody.example"})
        with pytest.raises(SchedulerUnavailable, match="is for another name"):
            misnamed.get("/x")
        for api in (trusting, named, wrong, misnamed):
            api.close()


def test_the_environment_overrides_neither_the_ca_nor_the_way_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = sign("ca")
    ca.write(tmp_path, "ca")
    sign("x", issuer=ca, names=("localhost",)).write(tmp_path, "good")
    sign("other").write(tmp_path, "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.crt"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with a_web(echo, tls=(tmp_path / "good.crt", tmp_path / "good.key")) as web:
        path = a_kubeconfig(tmp_path, web.url, cluster={"certificate-authority": "ca.crt"})
        api = connect(settings(path))
        assert api.get("/x") == {"asked": "/x"}
        api.close()


def test_a_proxy_of_the_environment_and_one_of_the_kubeconfig_are_used_for_clusters_out_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_web(echo) as web:
        monkeypatch.setenv("HTTP_PROXY", web.url)
        api = connect(settings(a_kubeconfig(tmp_path, "http://cluster.example:6443")))
        assert api.get("/x") == {"asked": "http://cluster.example:6443/x"}
        api.close()
        monkeypatch.delenv("HTTP_PROXY")
        path = a_kubeconfig(tmp_path, "http://cluster.example:6443", cluster={"proxy-url": web.url})
        api = connect(settings(path))
        assert api.get("/y") == {"asked": "http://cluster.example:6443/y"}
        api.close()


def test_a_token_file_is_read_again_when_the_token_is_no_longer_accepted(tmp_path: Path) -> None:
    def reply(asked: Asked) -> Reply:
        return echo(asked) if asked.headers["Authorization"] == "Bearer new" else refusal(401, "Unauthorized")

    (tmp_path / "token").write_text("old\n", encoding="ascii")
    with a_web(reply) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user={"tokenFile": "token"})))
        with pytest.raises(SchedulerRefused, match="renew the kubeconfig's credentials"):
            api.get("/x")
        (tmp_path / "token").write_text("new\n", encoding="ascii")
        assert api.get("/x") == {"asked": "/x"}
        api.close()


def a_plugin(folder: Path, line: str, *, version: str = "v1") -> dict[str, Any]:
    script = folder / "plugin"
    script.write_text(f"#!/bin/sh\n{line}\n", encoding="ascii")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": str(script)}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_credential_plugin_gives_the_token_and_is_told_what_is_asked(tmp_path: Path, version: str) -> None:
    with a_web(lambda asked: document({"token": asked.headers["Authorization"]})) as web:
        line = """echo "$KUBERNETES_EXEC_INFO" > "$0.told"; echo '{"status": {"token": "from-plugin"}}'"""
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user=a_plugin(tmp_path, line, version=version))))
        assert api.get("/x") == {"token": "Bearer from-plugin"}
        api.close()
    told = json.loads((tmp_path / "plugin.told").read_text(encoding="ascii"))
    assert told["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert told["spec"] == {"interactive": False}


def test_many_threads_ask_the_plugin_once_and_once_more_when_its_token_is_refused(tmp_path: Path) -> None:
    accepted = "Bearer t1"

    def reply(asked: Asked) -> Reply:
        return echo(asked) if asked.headers["Authorization"] == accepted else refusal(401, "Unauthorized")

    with a_web(reply) as web:
        line = """echo x >> "$0.runs"; printf '{"status": {"token": "t%d"}}' "$(wc -l < "$0.runs")\""""
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user=a_plugin(tmp_path, line))))
        answers: list[object] = []
        for now in ("Bearer t1", "Bearer t2"):
            accepted = now
            threads = [threading.Thread(target=lambda: answers.append(api.get("/x"))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        api.close()
    assert answers == [{"asked": "/x"}] * 16
    assert (tmp_path / "plugin.runs").read_text(encoding="ascii").count("x") == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo not logged in >&2; exit 1", "ended with 1: not logged in"),
        ("echo '{}'", "gave no ExecCredential with a status"),
        ("echo no json", "gave no ExecCredential with a status"),
        ("""echo '{"status": {"clientCertificateData": "x"}}'""", "gave a client certificate; only tokens are taken"),
    ],
)
def test_a_credential_plugin_that_fails_is_named_with_what_it_said(tmp_path: Path, line: str, said: str) -> None:
    with a_web(echo) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user=a_plugin(tmp_path, line))))
        with pytest.raises(SchedulerUnavailable, match=f"the credential plugin `.*/plugin` of .* {said}"):
            api.get("/x")
        api.close()
    assert web.asked == []


def test_a_credential_plugin_that_is_not_installed_or_not_known_is_said(tmp_path: Path) -> None:
    missing = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "installHint": "see docs"}
    with a_web(echo) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url, user={"exec": missing})))
        with pytest.raises(SchedulerUnavailable, match=r"`no-such-plugin` of .* is not installed here; see docs"):
            api.get("/x")
        api.close()
        odd = {"exec": {**missing, "apiVersion": "client.authentication.k8s.io/v9"}}
        with pytest.raises(SettingsError, match=r"plugins of client.authentication.k8s.io/v9 are not known"):
            connect(settings(a_kubeconfig(tmp_path, web.url, user=odd)))


def test_what_is_wrong_in_a_kubeconfig_is_named_with_the_fix(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(SettingsError, match=r"there is no kubeconfig .*nowhere \(kubernetes.kubeconfig\)"):
        connect(settings(nowhere))
    path = a_kubeconfig(tmp_path, "https://x:1")
    with pytest.raises(SettingsError, match=r"has no context `prod` \(kubernetes.context\); it has: here"):
        connect(settings(path, context="prod"))
    with pytest.raises(SettingsError, match=r"has no current context; set kubernetes.context to one of: here"):
        connect(settings(a_kubeconfig(tmp_path, "https://x:1", context="")))
    with pytest.raises(SettingsError, match="is no http"):
        connect(settings(a_kubeconfig(tmp_path, "x:6443")))
    with pytest.raises(SettingsError, match=r"auth-provider not supported.*use a token, a certificate or an exec"):
        connect(settings(a_kubeconfig(tmp_path, "https://x:1", user={"auth-provider": {"name": "gcp"}})))
    with pytest.raises(SettingsError, match=r"certificate-authority.* cannot be read"):
        connect(settings(a_kubeconfig(tmp_path, "https://x:1", cluster={"certificate-authority": "gone.crt"})))
    for text in (
        "{",
        "[]",
        "clusters: []",
        "clusters: [{name: a}]\ncurrent-context: a\ncontexts: [{name: a, context: 1}]",
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match="kubeconfig"):
            connect(settings(path))


def test_where_a_kubeconfig_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(SettingsError, match=r"neither kubernetes.kubeconfig nor KUBECONFIG is set"):
        connect(KubernetesSettings())
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(SettingsError, match="KUBECONFIG names several files"):
        connect(KubernetesSettings())
    monkeypatch.setenv("KUBECONFIG", str(a_kubeconfig(tmp_path, "http://found:1")))
    api = connect(KubernetesSettings())
    assert api.server == "http://found:1"
    api.close()


def test_in_a_pod_its_own_service_account_is_used_and_its_token_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, account = sign("ca"), tmp_path / "account"
    account.mkdir()
    ca.write(account, "ca")
    sign("x", issuer=ca, names=("kubernetes.default.svc",)).write(tmp_path, "good")
    (account / "namespace").write_text("trimtab", encoding="ascii")
    (account / "token").write_text("first", encoding="ascii")
    accepted = "Bearer first"

    def reply(asked: Asked) -> Reply:
        return echo(asked) if asked.headers["Authorization"] == accepted else refusal(401, "Unauthorized")

    with a_web(reply, tls=(tmp_path / "good.crt", tmp_path / "good.key")) as web:
        monkeypatch.setattr("trimtab.schedulers.kubeconfig.SERVICE_ACCOUNT", str(account))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", web.url.rpartition(":")[2])
        api = connect(KubernetesSettings(request_timeout_seconds=5.0))
        assert (api.server, api.get("/x")) == (web.url, {"asked": "/x"})
        accepted = "Bearer second"
        (account / "token").write_text("second", encoding="ascii")
        assert api.get("/y") == {"asked": "/y"}
        api.close()
        (account / "namespace").unlink()
        with pytest.raises(SettingsError, match=r"the pod's service account cannot be read: .*namespace"):
            connect(KubernetesSettings())


def silent(asked: Asked) -> Reply:
    if asked.path.startswith("/silent"):  # more is promised than comes
        return 200, {"Content-Length": "1000"}, b'{"n": 1}\n'
    if asked.path.startswith("/short"):
        return 200, {}, b'{"n": 1}\n\n{"n": 2}\n'
    if asked.path.startswith("/torn"):
        return 200, {}, b'{"n": 1}\n{"n'
    return refusal(410, "too old resource version")


def test_a_watch_gives_lines_and_ends_with_the_server_or_in_silence(tmp_path: Path) -> None:
    with a_web(silent) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url)))
        assert list(api.watch("/short", {"watch": "1"}, quiet_seconds_max=5)) == [b'{"n": 1}', b'{"n": 2}']
        torn = api.watch("/torn", {}, quiet_seconds_max=5)
        assert next(torn) == b'{"n": 1}'
        with pytest.raises(SchedulerUnavailable, match="cut in the middle of an event"):
            next(torn)
        quiet = api.watch("/silent", {}, quiet_seconds_max=0.2)
        assert next(quiet) == b'{"n": 1}'
        with pytest.raises(SchedulerSilent, match="nothing came for"):
            next(quiet)
        with pytest.raises(SchedulerGone, match="WATCH /gone: 410"):
            api.watch("/gone", {}, quiet_seconds_max=5)
        api.close()
    assert web.asked[0].path == "/short?watch=1"


def test_closing_the_door_wakes_whoever_waits_at_a_watch(tmp_path: Path) -> None:
    heard: list[object] = []

    def follow() -> None:
        try:
            heard.extend(stream)
        except SchedulerUnavailable as error:
            heard.append(error)

    with a_web(silent) as web:
        api = connect(settings(a_kubeconfig(tmp_path, web.url)))
        stream = api.watch("/silent", {}, quiet_seconds_max=600)
        thread = threading.Thread(target=follow)
        thread.start()
        api.close()
        thread.join(30)
        assert not thread.is_alive()
    assert isinstance(heard[-1], SchedulerUnavailable)
