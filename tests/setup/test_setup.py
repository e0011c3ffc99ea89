"""`trimtab setup` by files: for what is installed, twice without a change, and never over what is not ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.setup.conftest import PROMETHEUS, ROOT, WITH_FOLDERS, Host
from tests.setup.provisioned import data_sources, providers

from trimtab.setup.files import MANIFEST, Act, Ground
from trimtab.setup.prometheus import Scraped, files, include_folders, scrape_jobs, version_of

SOURCES = "etc/grafana/provisioning/datasources/trimtab.yaml"
PROVIDER = "etc/grafana/provisioning/dashboards/trimtab.yaml"
FLEET = "etc/grafana/provisioning/dashboards/trimtab/trimtab-fleet.json"
HISTORY = '[store]\nurl = "postgresql://trimtab@db.example:5433/trim$tab"\n'


def test_a_host_with_nothing_is_told_so_and_left_alone(host: Host) -> None:
    assert host.setup() == "Nothing to set up here: neither Grafana nor Prometheus nor Alertmanager is installed.\n"
    assert host.files() == {}


def test_grafana_gets_sources_folder_and_dashboards(host: Host) -> None:
    host.with_grafana().setup()
    (source,) = data_sources(host.text(SOURCES))
    assert (source.uid, source.type, source.url) == ("trimtab-prometheus", "prometheus", "http://127.0.0.1:9090")
    assert not source.is_default  # one default an organisation: not ours to be
    (provider,) = providers(host.text(PROVIDER))
    assert (provider.folder, provider.folder_uid, provider.allow_ui_updates) == ("trimtab", "trimtab", False)
    found = sorted((host.root / provider.options.path.lstrip("/")).glob("*.json"))
    sheets = [json.loads(path.read_text()) for path in found]
    assert len(sheets) == 9
    for sheet in sheets:
        chosen = sheet["templating"]["list"][0]
        assert (chosen["type"], chosen["current"]) == (
            "datasource",
            {"selected": True, "text": source.name, "value": source.uid},
        )


def test_where_the_history_is_in_postgresql_grafana_reads_it_with_a_password_from_a_file(host: Host) -> None:
    settings = host.write("daemon.toml", HISTORY)
    said = host.with_grafana().setup("--settings", str(settings))
    _, source = data_sources(host.text(SOURCES))
    assert (source.uid, source.type, source.user) == (
        "trimtab-postgresql",
        "grafana-postgresql-datasource",
        "trimtab_reader",
    )
    assert source.url == "db.example:5433"
    # Grafana expands $ in these files: doubled, it is one.
    assert source.json_data["database"] == "trim$$tab"
    assert source.json_data["sslmode"] == "require"
    assert source.secure_json_data == {"password": "$__file{/etc/trimtab/grafana-postgresql.password}"}
    assert len(list((host.root / FLEET).parent.glob("*-history*.json"))) == 3
    assert "CREATE ROLE trimtab_reader" in said
    assert "GRANT SELECT ON ALL TABLES" in said


def test_twice_changes_nothing(host: Host) -> None:
    host.with_grafana().with_prometheus().with_alertmanager()
    host.setup()
    before = {path: (text, (host.root / path).stat().st_mtime_ns) for path, text in host.files().items()}
    said = host.setup()
    after = {path: (text, (host.root / path).stat().st_mtime_ns) for path, text in host.files().items()}
    assert {path: one for path, one in after.items() if path != MANIFEST} == {
        path: one for path, one in before.items() if path != MANIFEST
    }
    assert said.startswith("Nothing to do: ")
    assert "systemctl" not in said


def test_a_dry_run_says_the_same_and_writes_nothing(host: Host) -> None:
    host.with_grafana().with_prometheus()
    before = host.files()
    said = host.setup("--dry-run")
    assert host.files() == before
    assert said.splitlines()[1:] == host.setup().splitlines()


def test_what_a_person_edited_is_left_and_said(host: Host) -> None:
    host.with_grafana().setup()
    host.write(FLEET, "{}")
    said = host.setup()
    assert f"left     /{FLEET}   (edited since; move it away to get ours)" in said
    assert host.text(FLEET) == "{}"
    (host.root / FLEET).unlink()
    assert f"made     /{FLEET}" in host.setup()


def test_what_somebody_else_made_is_left_and_said(host: Host) -> None:
    host.with_grafana().write(SOURCES, "apiVersion: 1\n")
    assert f"left     /{SOURCES}   (not made by trimtab; move it away to get ours)" in host.setup()
    assert host.text(SOURCES) == "apiVersion: 1\n"
    host.setup("--remove")
    assert host.files() == {SOURCES: "apiVersion: 1\n"}


def test_remove_takes_away_what_is_ours_and_nothing_else(host: Host) -> None:
    host.with_grafana().with_prometheus().with_alertmanager()
    before, folders = host.files(), {path for path in host.root.rglob("*") if path.is_dir()}
    host.setup()
    host.write("etc/trimtab/prometheus/site.rules.yml", "groups: []\n")
    edited = host.write(FLEET, "{}")
    said = host.setup("--remove")
    assert f"left     /{FLEET}   (edited since; it is yours now)" in said
    assert host.files() == {**before, FLEET: "{}", "etc/trimtab/prometheus/site.rules.yml": "groups: []\n"}
    assert edited.exists()
    edited.unlink()
    edited.parent.rmdir()
    host.root.joinpath("etc/trimtab/prometheus/site.rules.yml").unlink()
    host.root.joinpath("etc/trimtab/prometheus").rmdir()
    host.root.joinpath("etc/trimtab").rmdir()
    assert {path for path in host.root.rglob("*") if path.is_dir()} == folders
    assert host.setup("--remove") == "Nothing here was made by trimtab.\n"


def test_what_is_no_longer_needed_goes_with_the_next_run(host: Host) -> None:
    settings = host.write("daemon.toml", HISTORY)
    host.with_grafana().setup("--settings", str(settings))
    said = host.setup("--forget")
    assert said.count("no longer needed") == 3
    assert list((host.root / FLEET).parent.glob("*-history*.json")) == []
    assert len(data_sources(host.text(SOURCES))) == 1


def test_what_was_asked_for_holds_when_a_package_runs_it_again(host: Host) -> None:
    settings = host.write("daemon.toml", HISTORY)
    host.with_grafana().with_prometheus()
    asked = ["--prometheus-url", "http://mimir:9090", "--with-optional-rules", "--postgresql-user", "reader"]
    host.setup("--settings", str(settings), *asked, "--ca-file", "/etc/ca.pem")
    before = {path: text for path, text in host.files().items() if path != MANIFEST}
    said = host.setup()  # as packages/debian/daemon/postinst does, at each upgrade
    assert {path: text for path, text in host.files().items() if path != MANIFEST} == before
    assert (
        "As asked before: --settings /daemon.toml --prometheus-url http://mimir:9090 --postgresql-user reader "
        "--with-optional-rules --ca-file /etc/ca.pem" in said
    )
    assert json.loads(host.setup("--json"))["as_before"][0] == "--settings /daemon.toml"
    said = host.setup("--without-optional-rules", "--prometheus-url", "http://other:9090")
    assert "As asked before: --settings /daemon.toml --postgresql-user reader --ca-file /etc/ca.pem" in said
    assert not list(host.root.rglob("trimtab-optional.rules.yml"))
    assert [one.url for one in data_sources(host.text(SOURCES))] == ["http://other:9090", "db.example:5433"]
    settings.unlink()
    assert "Give --settings, or --forget." in host.fails()
    assert "As asked before" not in host.setup("--forget")
    (source,) = data_sources(host.text(SOURCES))
    assert source.url == "http://127.0.0.1:9090"


def test_wishes_wait_for_what_is_installed_later_and_a_dry_run_keeps_none(host: Host) -> None:
    host.setup("--prometheus-url", "http://mimir:9090", "--dry-run")
    assert host.files() == {}
    host.setup("--prometheus-url", "http://mimir:9090")
    host.with_grafana().setup()
    assert data_sources(host.text(SOURCES))[0].url == "http://mimir:9090"
    host.setup("--remove")
    assert host.files() == {}


def test_a_crash_between_a_file_and_the_manifest_is_mended(host: Host) -> None:
    host.with_grafana().setup()
    manifest = json.loads(host.text(MANIFEST))
    manifest["files"][FLEET] = "0" * 64  # as after a new version's file and the old version's manifest
    del manifest["files"][SOURCES]
    host.write(MANIFEST, json.dumps(manifest))
    assert host.setup().startswith("Nothing to do: ")
    assert FLEET in host.setup("--remove")
    assert not (host.root / SOURCES).exists()


def test_a_new_version_changes_its_own_files(host: Host) -> None:
    ground = Ground(host.root)
    assert [one.act for one in ground.place({"etc/x": "old"})] == [Act.MADE]
    assert [one.act for one in Ground(host.root).place({"etc/x": "new"})] == [Act.CHANGED]
    assert host.text("etc/x") == "new"


def test_nothing_is_written_through_a_link_or_out_of_the_root(host: Host, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside / "victim"
    target.write_text("mine")
    (host.root / "linked").symlink_to(outside)
    (host.root / "file").symlink_to(target)
    found = Ground(host.root).place({"linked/victim": "x", "linked/new": "x", "file": "x"})
    assert [one.act for one in found] == [Act.LEFT] * 3
    assert target.read_text() == "mine"
    assert sorted(path.name for path in outside.iterdir()) == ["victim"]


def test_files_are_readable_by_the_programs_that_they_are_for_and_hold_no_secret(host: Host) -> None:
    settings = host.write("daemon.toml", HISTORY.replace("trimtab@db", "trimtab:s3cret@db"))
    before = os.umask(0o077)
    try:
        host.with_grafana().with_prometheus().setup("--settings", str(settings))
    finally:
        os.umask(before)
    for path, text in host.files().items():
        if path != "daemon.toml":
            assert "s3cret" not in text
            if path.startswith(("etc/grafana/provisioning/da", "etc/trimtab")):
                assert (host.root / path).stat().st_mode & 0o044 == 0o044, path
    for folder in ("etc/trimtab", "etc/trimtab/prometheus", "etc/grafana/provisioning/dashboards/trimtab"):
        assert (host.root / folder).stat().st_mode & 0o055 == 0o055, folder


def test_a_broken_manifest_is_named_and_nothing_is_done(host: Host) -> None:
    host.with_grafana().write(MANIFEST, "{")
    before = host.files()
    assert "manifest.json" in host.fails()
    assert host.files() == before


# --- Prometheus


def test_rules_and_scrapes_go_into_the_folders_that_prometheus_includes(host: Host, promtool: str) -> None:
    (host.root / "etc/prometheus/rules.d").mkdir(parents=True)
    said = host.with_prometheus(WITH_FOLDERS).setup()
    assert "Add to" not in said
    rules = sorted(path.name for path in (host.root / "etc/prometheus/rules.d").iterdir())
    assert "trimtab-daemon.rules.yml" in rules
    assert "trimtab-optional.rules.yml" not in rules
    assert (host.root / "etc/prometheus/scrape.d/trimtab.scrape.yml").exists()
    check = [promtool, "check", "rules", *(str(host.root / "etc/prometheus/rules.d" / name) for name in rules)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    assert "trimtab-optional.rules.yml" in host.setup("--with-optional-rules")


def test_without_such_folders_the_lines_to_add_are_said_until_they_are_there(host: Host) -> None:
    said = host.with_prometheus().setup()
    lines = said.partition("Add to /etc/prometheus/prometheus.yml:\n")[2].splitlines()[:4]
    added = yaml.safe_load("\n".join(lines))
    assert added == {
        "rule_files": ["/etc/trimtab/prometheus/trimtab*.rules.yml"],
        "scrape_config_files": ["/etc/trimtab/prometheus/trimtab.scrape.yml"],
    }
    assert "Add to" in host.setup()  # still not there
    config = yaml.safe_load(host.text("etc/prometheus/prometheus.yml")) | added
    host.write("etc/prometheus/prometheus.yml", yaml.safe_dump(config))
    assert "Add to" not in host.setup()


def test_the_lines_added_make_a_good_configuration(host: Host, promtool: str) -> None:
    host.with_prometheus().setup()
    jobs = yaml.safe_load(host.text("etc/trimtab/prometheus/trimtab.scrape.yml"))["scrape_configs"]
    config = {"rule_files": [f"{host.root}/etc/trimtab/prometheus/trimtab*.rules.yml"], "scrape_configs": jobs}
    path = host.write("whole.yml", yaml.safe_dump(config))
    check = subprocess.run([promtool, "check", "config", str(path)], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


def test_a_prometheus_that_includes_no_scrapes_gets_the_jobs_as_lines(host: Host, promtool: str) -> None:
    said = files(PROMETHEUS, rules={}, scraped=Scraped(daemon_url="http://127.0.0.1:9740"), version=(2, 42))[1]
    added = yaml.safe_load("\n".join(said))
    assert [job["job_name"] for job in added["scrape_configs"]] == ["trimtab-daemon", "trimtab-agents", "gpu-exporters"]
    path = host.write("old.yml", yaml.safe_dump({"scrape_configs": added["scrape_configs"]}))
    check = subprocess.run([promtool, "check", "config", str(path)], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    whole = PROMETHEUS + "\n".join(said).partition("scrape_configs:\n")[2]
    assert "trimtab-daemon" in whole
    again = files(whole, rules={}, scraped=Scraped(daemon_url="http://127.0.0.1:9740"), version=(2, 42))[1]
    assert "scrape_configs:" not in again


def test_the_version_of_a_prometheus_is_read_from_what_it_says() -> None:
    assert version_of("prometheus, version 2.42.0+ds (branch: debian/sid)") == (2, 42)
    assert version_of("prometheus, version 3.5.0 (branch: HEAD)") == (3, 5)
    assert version_of("no such option") is None


def test_what_is_scraped_is_what_the_sample_says() -> None:
    sample = yaml.safe_load((ROOT / "alerts" / "prometheus.yml").read_text())["scrape_configs"]
    ours = scrape_jobs(Scraped(daemon_url="https://trimtab.example:9740", token_file="/x"))
    for theirs, mine in zip(sample, ours, strict=True):
        for key in ("job_name", "honor_labels", "relabel_configs"):
            assert theirs.get(key) == mine.get(key), (theirs["job_name"], key)
        urls = [[one.get("url") for one in job.get("http_sd_configs", [])] for job in (theirs, mine)]
        assert urls[0] == urls[1]


HTTPS = """
[people]
listen = "0.0.0.0:9740"
certificate_file = "/etc/trimtab/tls.pem"
key_file = "/etc/trimtab/tls.key"
metrics_token_file = "/etc/trimtab/metrics.token"
"""


def test_certificates_and_both_tokens_are_as_asked(host: Host, promtool: str) -> None:
    settings = host.write("daemon.toml", HTTPS)
    ca, token, agents = (host.write(f"etc/prometheus/{name}", "x") for name in ("ca.pem", "daemon.token", "a.token"))
    for path in (ca, token, agents):
        path.chmod(0o644)
    named = ["--ca-file", "/etc/prometheus/ca.pem", "--metrics-token-file", "/etc/prometheus/daemon.token"]
    named += ["--agents-token-file", "/etc/prometheus/a.token", "--daemon-url", "https://trimtab.example:9740"]
    said = host.with_prometheus().setup("--settings", str(settings), *named)
    assert "cannot read" not in said
    assert "--ca-file FILE" not in said
    jobs = yaml.safe_load(host.text("etc/trimtab/prometheus/trimtab.scrape.yml"))["scrape_configs"]
    daemon, of_agents, exporters = jobs
    trust = {"ca_file": "/etc/prometheus/ca.pem"}
    assert (daemon["tls_config"], of_agents["tls_config"]) == (trust, trust)
    assert daemon["static_configs"] == [{"targets": ["trimtab.example:9740"]}]
    assert daemon["authorization"] == {"credentials_file": "/etc/prometheus/daemon.token"}
    assert of_agents["authorization"] == {"credentials_file": "/etc/prometheus/a.token"}
    for job in (of_agents, exporters):
        (listed,) = job["http_sd_configs"]
        assert listed["url"] == "https://trimtab.example:9740/sd"
        assert (listed["tls_config"], listed["authorization"]) == (trust, daemon["authorization"])
    text = yaml.safe_dump({"scrape_configs": jobs}).replace("/etc/prometheus/", f"{host.root}/etc/prometheus/")
    check = [promtool, "check", "config", str(host.write("whole.yml", text))]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0


def test_what_setup_cannot_know_of_certificates_and_tokens_is_left_for_a_person(host: Host) -> None:
    settings = host.write("daemon.toml", HTTPS)
    host.write("etc/trimtab/metrics.token", "x").chmod(0o600)
    said = host.with_prometheus().setup("--settings", str(settings))
    assert "User prometheus cannot read the metrics token in /etc/trimtab/metrics.token" in said
    assert "trimtab setup --ca-file FILE" in said
    assert "trimtab setup --agents-token-file FILE" in said
    again = host.setup()
    assert "cannot read" in again  # until it can
    assert "--agents-token-file" not in again  # said once
    (host.root / "etc/trimtab/metrics.token").chmod(0o644)
    assert "cannot read" not in host.setup()


@pytest.mark.parametrize(
    ("config", "folders"),
    [
        ("rule_files:\n  - /etc/prometheus/rules.d/*.yml\n", ("etc/prometheus/rules.d",)),
        ("rule_files:\n- 'rules/*.rules.yml'\n- x.yml\n", ("etc/prometheus/rules",)),
        ('rule_files: ["/a/*.yml", "/b/c.yml"]\n', ("a",)),
        ("rule_files:\n  # - /etc/prometheus/rules.d/*.yml\nscrape_configs:\n  - /x/*.yml\n", ()),
        ("rule_files: []\n", ()),
        ("rule_files:\n  - /a/*.rules\n  - /b/*/x.yml\n  - /c/site-*.yml\n", ()),
        ("#rule_files:\n#  - /a/*.yml\n", ()),
        ("global: {}\n", ()),
        ("", ()),
    ],
)
def test_folders_to_include_are_read_from_its_configuration(config: str, folders: tuple[str, ...]) -> None:
    assert include_folders(config, "rule_files") == folders


def test_alertmanager_gets_a_sample_and_a_sentence(host: Host) -> None:
    said = host.with_alertmanager().setup()
    assert "copy the routes and inhibitions of /etc/trimtab/alertmanager.sample.yml" in said
    assert host.text("etc/prometheus/alertmanager.yml").startswith("route: {receiver: default}")
    host.with_alertmanager("route: {}\n# trimtab's routes\n")
    assert "copy the routes" not in host.setup()


# --- where the history is
