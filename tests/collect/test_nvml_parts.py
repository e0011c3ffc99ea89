"""Parts of an NVML reading: reasons, rows, events, parts swapped, processes, MIG instances."""

from __future__ import annotations

from pathlib import Path

from tests.standin.driver import Driver
from tests.standin.node import PCI_3, UUID_3, Node, gpu, states

from trimtab.model.reading import Event, EventKind, EventSource, GpuState


def test_clock_events_become_one_value_a_reason(driver: Driver) -> None:
    driver["0.clock_events"] = 0x40 | 0x4
    driver["0.field.270"] = 90_000_000_000
    values = gpu(Node().tick(), 0).values
    active = {key for key, value in values.items() if key.startswith("clock_event_active/") and value}
    assert active == {"clock_event_active/hw_thermal", "clock_event_active/sw_power_cap"}
    assert values["clock_event_seconds_total/hw_thermal"] == 90.0


def test_rows_and_errors_go_to_their_own_kind(driver: Driver) -> None:
    driver["0.field.142"], driver["0.field.143"] = 7, 2
    driver["0.field.3"], driver["0.field.4"], driver["0.field.5"], driver["0.field.6"] = 11, 1, 900, 3
    values = gpu(Node().tick(), 0).values
    assert (values["remapped_rows/correctable"], values["remapped_rows/uncorrectable"]) == (7.0, 2.0)
    assert (values["ecc_errors_total/corrected"], values["ecc_errors_total/uncorrected"]) == (11.0, 1.0)
    assert (values["ecc_errors_aggregate/corrected"], values["ecc_errors_aggregate/uncorrected"]) == (900.0, 3.0)


def test_a_completed_fabric_with_a_bad_status_has_failed(driver: Driver) -> None:
    driver["0.fabric_status"] = 999
    assert gpu(Node().tick(), 0).values["fabric_state"] == 4.0


def test_an_xid_event_is_read_once_with_its_gpu_and_instance(driver: Driver) -> None:
    driver["xid.1"] = "3 79"  # before we listen: NVML does not replay it
    node = Node()
    assert node.tick().events == ()
    driver["xid.2"] = "3 94 2 0"
    driver["xid.3"] = "5 31"
    found = node.tick().events
    assert [(event.code, event.gpu, event.gi) for event in found] == [
        (94, UUID_3, 2),
        (31, UUID_3.replace("3", "5"), None),
    ]
    assert found[0] == Event(
        kind=EventKind.XID,
        source=EventSource.NVML,
        at=node.clock.now(),
        code=94,
        gpu=UUID_3,
        pci=PCI_3,
        gi=2,
        details={"ci": "0"},
        text=f"NVML event: XID 94 on GPU 3 ({PCI_3})",
    )
    assert node.tick().events == ()


def test_an_xid_of_a_gpu_that_is_lost_by_now_still_names_it(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["3.lost"] = 1
    driver["xid.1"] = "3 79"
    assert [(event.kind, event.gpu) for event in node.tick().events] == [
        (EventKind.XID, UUID_3),
        (EventKind.GPU_LOST, UUID_3),
    ]


def test_a_new_uuid_in_a_slot_is_a_swapped_part(driver: Driver, tmp_path: Path) -> None:
    Node(tmp_path).tick()
    driver["3.uuid"] = "GPU-99999999-0000-4000-8000-000000000099"
    section = Node(tmp_path, boot_id="boot-b").tick()
    event = section.events[0]
    assert (len(section.events), event.kind, event.pci) == (1, EventKind.UUID_CHANGED, PCI_3)
    assert event.details == {"from": UUID_3, "to": "GPU-99999999-0000-4000-8000-000000000099"}
    assert UUID_3 not in [found.uuid for found in section.gpus]


def test_a_damaged_inventory_starts_anew(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "gpus.json").write_text("{")
    assert states(Node(tmp_path).tick()) == [GpuState.OK] * 8


def test_processes_that_exist_are_listed_each_minute(driver: Driver) -> None:
    driver["0.processes"] = "4242:1073741824,999999:5"
    node = Node()
    first = gpu(node.tick(), 0)
    assert [(found.pid, found.name, found.memory_used_bytes) for found in first.processes or ()] == [
        (4242, "python", 1073741824)
    ]
    assert first.values["compute_processes"] == 1.0
    driver["0.processes"] = "4242:1,4243:2"
    assert len(gpu(node.tick(), 0).processes or ()) == 1
    assert len(gpu(node.tick(60.0), 0).processes or ()) == 2


def test_a_list_of_pids_that_do_not_exist_blames_nobody(driver: Driver) -> None:
    driver["0.processes"] = "999998:5,999999:5"
    section = Node().tick()
    assert gpu(section, 0).processes is None
    assert "pid namespace" in section.errors["gpu 0 processes"]
    assert gpu(section, 1).processes == ()


def test_a_split_gpu_gives_its_instances_and_no_utilisation(driver: Driver) -> None:
    driver["2.mig"] = 1
    driver["2.instances"] = "1:0:3g.40gb:42949672960,5:0:1g.10gb:10737418240"
    node = Node()
    node.tick()
    section = node.tick()
    reading = gpu(section, 2)
    assert section.errors == {}
    assert (reading.info.is_mig, reading.state, reading.values["mig_mode"]) == (True, GpuState.OK, 1.0)
    assert not [key for key in reading.values if key.startswith(("utilization", "nvlink", "sm_active", "remapped"))]
    assert reading.values["power_watts"] == 412.0
    assert [(found.gi, found.ci, found.profile) for found in reading.instances] == [
        (1, 0, "3g.40gb"),
        (5, 0, "1g.10gb"),
    ]
    assert reading.instances[1].values["memory_total_bytes"] == 10737418240.0
    assert reading.instances[1].values["sm_active_ratio"] == 0.825


def test_a_gpu_that_is_split_while_we_watch_is_learnt_anew(driver: Driver) -> None:
    node = Node()
    node.tick()
    driver["2.mig"] = 1
    assert "utilization_ratio" not in gpu(node.tick(), 2).values
    del driver["2.mig"]
    assert "utilization_ratio" in gpu(node.tick(), 2).values
