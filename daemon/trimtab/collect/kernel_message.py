"""The grammar of the driver's kernel messages: one text without its log prefix -> what it says. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.collect.pci import canonical_pci


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one driver message says. `facts` are rarer printed facts, `details` go to an event only."""

    kind: str
    code: int | str | None = None
    pci: str | None = None
    subcode: str | None = None
    engine: str | None = None
    link: int | None = None
    severity: str | None = None
    pid: int | None = None
    name: str | None = None
    gi: int | None = None
    is_malformed: bool = False
    is_truncated: bool = False
    is_opening: bool = False
    """The first line of a message that its next lines complete."""
    facts: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)


IGNORE = Message(kind="ignore")
_OTHER = Message(kind="other")
_MALFORMED = Message(kind="other", is_malformed=True)

_XID = re.compile(r"NVRM:\s*Xid\s*\(([^)]*)\):\s*(.*)", re.DOTALL)
_CODE = re.compile(r"([0-9]{1,5})(?![\w.])\s*,?\s*(.*)", re.DOTALL)
_PID = re.compile(r"\bpid=(?:'?(\d+)'?|'?<unknown>'?)\s*(?:,\s*|$)")
_NAME = re.compile(r"\bname=(.*?)(?:,\s+|,?$)")
_INSTANCE = re.compile(r"\bGPU-I:\s*(\d+)")
_SXID = re.compile(r"nvidia-(nvswitch\d+):\s*SXid\s*\(([^)]*)\):\s*(.*)", re.DOTALL)
_SXID_ENGINE = re.compile(r"Severity \d+ Engine instance (\d+) Sub-engine instance (\d+)")
_SXID_SEVERITY = re.compile(r"(Non-fatal|Fatal)\s*,?\s*(.*)", re.DOTALL)
_LINK = re.compile(r"\bLink (-?\d+)")
_WARP = re.compile(r"\((GPC \d+, TPC \d+, SM \d+)\)")
_MMU = re.compile(r"ENGINE (.+?) faulted @ ?(\S+?)\.? ")
_CONTAINMENT = re.compile(r"\b(Contained|Uncontained): (.+?)\. RST: (\w+)(?:, D-RST: (\w+))?")
_RPC = re.compile(r"Expected function (\d+)")
_NVLINK4 = re.compile(r"\blink (-?\d+)\s*\(([0-9a-fA-Fx, ]*)\)")
_NVLINK5 = re.compile(
    r"([A-Z][A-Z0-9_]+(?: PIPE\d)?) (Fatal|Non-?fatal) XC(\d+) i(\d+) Link (-?\d+)(?:\s*\(([^)]*)\))?"
)
_REMOTE = re.compile(r"([A-Z][A-Z0-9_]+) interrupt hit on link (-?\d+)(?: on (GPU\d+))?")
_RECOVERY = re.compile(r"from (0x[0-9a-fA-F]+) \((.*?)\) to (0x[0-9a-fA-F]+)(?: \((.*?)\))?")
_CAUSED_BY = re.compile(r"caused by previous Xid (\d+)")
_FALLEN = re.compile(r"NVRM:.*\bfallen off the bus", re.DOTALL)
_OPENING = re.compile(r"NVRM: The NVIDIA GPU (\S+)\s*(?:\(PCI ID:\s*([0-9a-fA-F:]+)\))?")
_DEVICE_ID = re.compile(r"\(PCI ID:\s*([0-9a-fA-F]{4}:[0-9a-fA-F]{4})\)")
_GPU_ADDRESS = re.compile(r"GPU (?:at )?(?:PCI:)?([0-9a-fA-F]+(?::[0-9a-fA-F]+)+(?:\.[0-7])?)")
_RM_INIT = re.compile(r"RmInitAdapter failed!?\s*(?:\(([^)]*)\))?")
_RM_MINOR = re.compile(r"rm_init_adapter failed, device minor number (\d+)")
_UUID = re.compile(r"NVRM: GPU at (?:PCI:)?([0-9a-fA-F:.]+): (GPU-[0-9a-fA-F-]{8,36})")
_SERIAL = re.compile(r"GPU Board Serial Number: (\S+)")
_RESET_REQUIRED = re.compile(r"\[NV_ERR_RESET_REQUIRED\]\s*(?:\((0x[0-9a-fA-F]+)\))?")
_STATUS_RESET_REQUIRED = re.compile(r"\bstatus=(0x0*62)\b")
_TROUBLE = re.compile(r"\b(?:failed|failure|failing|error|assert\w*)\b", re.IGNORECASE)


def read_message(text: str) -> Message:
    """What a kernel message of the NVIDIA drivers says; `ignore` for any other text. Never raises."""
    if "NVRM:" in text:
        return _read_nvrm(text)
    if "SXid" in text:
        return _read_sxid(text)
    return IGNORE


def completes_opening(text: str) -> bool:
    """Whether a line ends the three-line message of a GPU that fell off the bus."""
    return "fallen off the bus" in text


def continues_opening(text: str) -> bool:
    """Whether a line is the middle of that message."""
    return "(PCI ID:" in text and "installed in this system" in text


def device_id_of(text: str) -> str | None:
    """Vendor and device id (`10de:2335`) where printed."""
    found = _DEVICE_ID.search(text)
    return found[1] if found else None


def _read_nvrm(text: str) -> Message:
    if re.search(r"NVRM:\s*Xid\b", text):
        return _read_xid(text)
    if _FALLEN.search(text):
        return _read_fallen(text)
    for reader in (_read_opening, _read_rm_init, _read_uuid, _read_serial, _read_reset_required):
        message = reader(text)
        if message is not None:
            return message
    status = _STATUS_RESET_REQUIRED.search(text)
    if status:
        return Message(kind="other", facts={"status": status[1]})
    return _OTHER if _TROUBLE.search(text) else IGNORE


def _read_fallen(text: str) -> Message:
    address, device_id = _GPU_ADDRESS.search(text), device_id_of(text)
    return Message(
        kind="fallen_off",
        pci=canonical_pci(address[1]) if address else None,
        facts={"device_id": device_id} if device_id else {},
    )


def _read_opening(text: str) -> Message | None:
    found = _OPENING.search(text)
    if found is None or canonical_pci(found[1]) is None:
        return None
    facts = {"device_id": found[2]} if found[2] else {}
    return Message(kind="other", pci=canonical_pci(found[1]), is_opening=True, facts=facts)


def _read_rm_init(text: str) -> Message | None:
    code, minor, address = _RM_INIT.search(text), _RM_MINOR.search(text), _GPU_ADDRESS.search(text)
    if code is None and minor is None:
        return None
    return Message(
        kind="rm_init",
        code=code[1] if code else None,
        pci=canonical_pci(address[1]) if address else None,
        facts={"minor": int(minor[1])} if minor else {},
    )


def _read_uuid(text: str) -> Message | None:
    found = _UUID.search(text)
    return Message(kind="other", pci=canonical_pci(found[1]), facts={"uuid": found[2]}) if found else None


def _read_serial(text: str) -> Message | None:
    found = _SERIAL.search(text)
    return Message(kind="other", facts={"serial": found[1]}) if found else None


def _read_reset_required(text: str) -> Message | None:
    found = _RESET_REQUIRED.search(text)
    if found is None:
        return None
    status = {"status": found[1]} if found[1] else {}
    return Message(kind="other", facts={**status, "reset_required": True})


def _read_xid(text: str) -> Message:
    found = _XID.search(text)
    numbered = _CODE.match(found[2]) if found else None
    if found is None or numbered is None:
        return _MALFORMED
    address, code, tail = found[1], int(numbered[1]), numbered[2].rstrip().rstrip('"')
    pid, name, instance = _PID.search(tail), _NAME.search(tail), _INSTANCE.search(address)
    owner = {
        "pid": int(pid[1]) if pid and pid[1] else None,
        "name": _name_or_none(name[1]) if name else None,
        "gi": int(instance[1]) if instance else None,
    }
    body = _NAME.sub("", _PID.sub("", tail, count=1), count=1) if pid or name else tail
    found_more = _BY_CODE.get(code, _read_nothing)(body)
    return Message(kind="xid", code=code, pci=canonical_pci(address.split()[0] if address.split() else ""),
                   **owner, **found_more)  # type: ignore[arg-type]  # fmt: skip


def _name_or_none(text: str) -> str | None:
    name = text.strip().strip("'\"")
    return None if not name or name.startswith("<unknown") else name


def _read_nothing(body: str) -> dict[str, object]:  # noqa: ARG001 - one shape for all readers of a code
    return {}


def _read_13(body: str) -> dict[str, object]:
    found = _WARP.search(body)
    return {"engine": found[1]} if found else {}


def _read_31(body: str) -> dict[str, object]:
    found = _MMU.search(body + " ")
    return {"engine": found[1], "details": {"address": found[2]}} if found else {}


def _read_45(body: str) -> dict[str, object]:
    found = _CAUSED_BY.search(body)
    return {"details": {"caused_by": found[1]}} if found else {}


def _read_containment(body: str) -> dict[str, object]:
    found = _CONTAINMENT.search(body)
    if found is None:
        return {}
    return {"subcode": found[1], "engine": found[2], "details": {"reset": found[3], "drain_reset": found[4] or ""}}


def _read_gsp(body: str) -> dict[str, object]:
    found = _RPC.search(body)
    return {"subcode": f"function {found[1]}"} if found else {}


def _read_nvlink4(body: str) -> dict[str, object]:
    found = _NVLINK4.search(body)
    if found is None:
        return {}
    registers = [word.strip() for word in found[2].split(",") if word.strip()]
    fatal = {"severity_word": "fatal"} if "fatal" in body[: found.start()] else {}
    details = {"registers": " ".join(registers), **fatal}
    return {"link": int(found[1]), "facts": {"registers": registers}, "details": details}


def _read_nvlink5(body: str) -> dict[str, object]:
    found = _NVLINK5.search(body)
    if found is None:
        return {}
    words = (found[6] or "").split()
    known = all(word.startswith("0x") for word in words)
    return {
        "subcode": found[1],
        "severity": found[2],
        "link": int(found[5]),
        "details": {"instance": found[4], "words": " ".join(words)} if words and known else {"instance": found[4]},
    }


def _read_remote(body: str) -> dict[str, object]:
    found = _REMOTE.search(body)
    if found is None:
        return {}
    hint = {"gpu_text": found[3]} if found[3] else {}
    return {"subcode": found[1], "link": int(found[2]), "facts": hint, "details": hint}


def _read_recovery(body: str) -> dict[str, object]:
    found = _RECOVERY.search(body)
    if found is None:
        return {"is_truncated": True, "facts": {"action": None}}
    said = {"action": found[3].lower()} | ({"action_text": found[4]} if found[4] else {})
    return {"facts": said, "details": {**said, "action_before": found[1].lower()}}


_BY_CODE: Mapping[int, Callable[[str], dict[str, object]]] = {
    13: _read_13, 31: _read_31, 45: _read_45, 74: _read_nvlink4, 94: _read_containment, 95: _read_containment,
    119: _read_gsp, 120: _read_gsp, 137: _read_remote, 154: _read_recovery,
    **dict.fromkeys(range(144, 151), _read_nvlink5),
}  # fmt: skip


def _read_sxid(text: str) -> Message:
    found = _SXID.search(text)
    numbered = _CODE.match(found[3]) if found else None
    if found is None or numbered is None:
        return _MALFORMED if re.search(r"nvswitch\d*:\s*SXid", text) else IGNORE
    rest = numbered[2].strip()
    severity, engine, link = _SXID_SEVERITY.match(rest), _SXID_ENGINE.match(rest), _LINK.search(rest)
    after = severity[2] if severity else ""
    return Message(
        kind="sxid",
        code=int(numbered[1]),
        pci=canonical_pci(found[2]),
        severity=severity[1] if severity else None,
        link=int(link[1]) if link else None,
        engine=f"{engine[1]}/{engine[2]}" if engine else None,
        is_truncated=link is None and severity is not None and "Link ".startswith(after),
        facts={"device": found[1]},
        details={"text": after} if after else {},
    )
