"""Files that somebody gives to `inspect`: nothing is unpacked, fetched, run or made of them."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab.errors import UnreadableInput
from trimtab.inspect.reader import inspect_bytes
from trimtab.ship import zstd

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SLIPS = "../../../../etc/cron.d/owned"


def a_tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        entry = tarfile.TarInfo(SLIPS)
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"evil"))
    return held.getvalue()


def a_zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr(SLIPS, "evil")
    return held.getvalue()


ARCHIVES = {
    "zip": a_zip(),
    "tar": a_tar(),
    "tar.gz": gzip.compress(a_tar()),
    "gzip bomb": gzip.compress(b"\0" * (64 << 20)),
    "zstd bomb": zstd.compress(b"\0" * (64 << 20)),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_no_archive_is_unpacked(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableInput):
        inspect_bytes(ARCHIVES[kind], now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_xml_neither_grows_nor_fetches(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("trimtab-secret", encoding="ascii")
    grows = "".join(f'<!ENTITY a{one} "{f"&a{one - 1};" * 10}">' for one in range(1, 12))
    for entities, used in (
        ('<!ENTITY a0 "lol">' + grows, "&a11;"),
        (f'<!ENTITY x SYSTEM "file://{secret}">', "&x;"),
        (f'<!ENTITY % x SYSTEM "file://{secret}"> %x;', "a"),
    ):
        text = (
            f'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [{entities}]><nvidia_smi_log>'
            f'<driver_version>{used}</driver_version><attached_gpus>1</attached_gpus><gpu id="00000000:01:00.0">'
            "<product_name>H100</product_name></gpu></nvidia_smi_log>"
        )
        try:
            read = str(inspect_bytes(text.encode(), now=NOW).as_dict())
        except UnreadableInput as error:
            read = str(error)
        assert "trimtab-secret" not in read
        assert read.count("lol") < 100


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: !!python/object/apply:os.system ['touch owned']\n",
        "apiVersion: v1\nkind: List\nitems: &a [*a, *a]\n",
        "apiVersion: v1\nkind: List\nitems:\n"
        + "".join(f"- &x{n} [{', '.join([f'*x{n - 1}'] * 9) if n else 1}]\n" for n in range(12)),
    ],
    ids=["object", "itself", "billion laughs"],
)
def test_yaml_makes_no_objects(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        inspect_bytes(text.encode(), now=NOW)
    except UnreadableInput as error:
        assert str(error)
    assert list(tmp_path.iterdir()) == []
