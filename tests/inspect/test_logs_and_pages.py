"""What the field cases do not hold: journal exports, one page with an old XID, several hosts in one log."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.field_cases import case

from trimtab.inspect.reader import inspect_bytes
from trimtab.model.advice import Action

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def read(text: str):
    return inspect_bytes(text.encode(), now=NOW)


def test_a_journal_export_is_read_entry_by_entry():
    entry = (
        "__CURSOR=s=7;i={i}\n_BOOT_ID=boot-b\n__REALTIME_TIMESTAMP=1793610000000000\n_TRANSPORT=kernel\n"
        "SYSLOG_FACILITY=0\n_HOSTNAME=gpu-07\nMESSAGE={message}\n\n"
    )
    found = read(
        entry.format(i=1, message="usb 1-1: new device")
        + entry.format(i=2, message="NVRM: Xid (PCI:0000:6e:00): 79, GPU has fallen off the bus.")
        + entry.format(i=2, message="NVRM: Xid (PCI:0000:6e:00): 79, GPU has fallen off the bus.")
    )
    assert found.verdict is Action.CORDON_REBOOT
    assert [finding.sentence for finding in found.findings] == ["gpu-07 GPU 6e:00.0 fell off the bus (XID 79)"]
    assert [record["line"] for record in found.reading] == [7, 15, 23]
    assert found.reading[2]["duplicate_of"] == 15


def test_hosts_of_one_log_are_judged_apart():
    line = "Nov  1 10:00:0{n} {host} kernel: NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus.\n"
    found = read(line.format(n=1, host="gpu-01") + line.format(n=2, host="gpu-02"))
    assert sorted(finding.subject.node for finding in found.findings) == ["gpu-01", "gpu-02"]


def test_one_page_with_an_xid_is_a_thing_to_look_up_and_no_verdict():
    found = read('DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 79\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n')
    assert found.verdict is Action.WATCH
    assert found.findings[0].sentence == (
        "GPU-a shows XID 79 (fell off the bus) as its last code; when it came is not said"
    )


def test_a_page_with_a_pending_remap_wants_a_reset_when_empty():
    found = read(
        'DCGM_FI_DEV_ROW_REMAP_PENDING{gpu="0",UUID="GPU-a"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n'
    )
    assert found.verdict is Action.RESET_AFTER_DRAIN


def test_bad_lines_of_a_page_are_counted():
    found = read(case("A24").text + 'DCGM_FI_DEV_GPU_TEMP{gpu="0" N/A\n')
    assert (found.errors, found.reading["gpus"]) == (1, 2)


def test_an_unhealthy_device_of_another_vendor_is_named():
    head, health, rest = case("D01").text.partition('npu_chip_info_health_status{id="0"')
    found = read(head + health + rest.replace(" 1 1712041875", " 0 1712041875", 1))
    assert found.verdict is Action.WATCH
    assert found.findings[0].sentence == "Device 0 is unhealthy, as its vendor says"


def test_smi_asks_for_what_the_driver_asks():
    text = case("C03").text.replace(
        "GPU Recovery Action                                : None",
        "GPU Recovery Action                                : Reboot", 1)  # fmt: skip
    found = read(text)
    assert found.verdict is Action.CORDON_REBOOT
    assert len(found.findings) == 1


def test_a_remap_failure_in_xml_is_a_part_to_replace():
    gpu = (
        '<gpu id="00000000:21:00.0"><uuid>GPU-x</uuid><remapped_rows><remapped_row_corr>0</remapped_row_corr>'
        "<remapped_row_unc>9</remapped_row_unc><remapped_row_pending>No</remapped_row_pending>"
        "<remapped_row_failure>Yes</remapped_row_failure></remapped_rows></gpu>"
    )
    found = read(f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
                 f"<nvidia_smi_log><attached_gpus>1</attached_gpus>{gpu}</nvidia_smi_log>")  # fmt: skip
    assert found.verdict is Action.HARDWARE_RMA
    assert found.reading["remap"]["failure"] is True


def test_a_list_of_gpus_says_nothing_of_links():
    found = read("GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 1g.5gb     Device  0: (UUID: MIG-aa-bb)\n")
    assert found.reading["links"] == {"0": None}
    assert found.reading["mig_devices"] == 1


def test_inactive_links_are_not_counted():
    found = read("GPU 0: NVIDIA A100 (UUID: GPU-a)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n")
    assert found.reading["links"] == {"0": 1}


def test_a_topology_copied_with_blanks_is_read():
    found = read(
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV4     0-23    0\n"
        "GPU1    NV4      X      0-23    0\n"
    )
    assert (found.reading["gpus"], found.reading["nvlinks"], found.reading["pairs"]) == (2, 4, [[0, 1]])
