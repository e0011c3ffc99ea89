"""The board: each GPU in one state, numbers that add up, sentences with the number that decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import numpy as np
from tests.builders import BUSY, CLUSTER, IDLE, a_finding, a_node, a_reading, a_snapshot, a_window, a_workload, gpu_uuid
from tests.fakes.clock import START
from tests.fakes.people import NOW, a_board, a_breaker, a_command, a_fault, a_recommendation, a_scene

from trimtab.model.advice import FindingState, Severity, Subject
from trimtab.model.board import Board, CellState, Step
from trimtab.model.cluster import GpuKey, Queue, Reservation, WorkloadState
from trimtab.model.command import Command, CommandState, Gain, Mode, RecommendationKind, Refusal, Verb, Write
from trimtab.model.reading import GpuState, MigReading
from trimtab.model.window import Series
from trimtab.show.board import BoardBox
from trimtab.show.circumstances import Circumstances


def states(board: Board, node: str) -> list[str]:
    row = next(row for row in board.nodes if row.name == node)
    return [cell.state.value for cell in row.cells]


def test_each_gpu_has_the_one_state_that_the_evidence_allows() -> None:
    board = a_board()
    assert states(board, "gpu-00") == ["working"] * 8
    assert states(board, "gpu-01") == ["working"] * 3 + ["lost"] + ["working"] * 4
    assert states(board, "gpu-02") == ["working"] * 5 + ["stranded"] * 3
    assert states(board, "gpu-03") == ["spare"] * 8


def test_the_numbers_at_the_top_add_up_to_all_gpus() -> None:
    strip = a_board().strip
    assert (strip.gpus_working, strip.gpus_free, strip.gpus_spare, strip.gpus_out_of_service) == (20, 3, 8, 1)
    counts = (strip.gpus_held_idle, strip.gpus_unknown)
    assert strip.gpus_total == 20 + 3 + 8 + 1 + sum(counts) == 32
    assert strip.gpus_reporting == 31
    assert strip.stranded == {1: 0, 2: 1, 4: 3, 8: 3}


def test_a_gpu_of_unknown_use_has_reported_all_the_same() -> None:
    minimal = [a_reading("gpu-05", index, values={"memory_used_bytes": 1e9}) for index in range(8)]
    board = a_board(snapshot=None, window=a_window({"gpu-05": minimal}, at=NOW), findings=())
    assert (board.strip.gpus_unknown, board.strip.gpus_reporting) == (8, 8)


def test_goodput_takes_what_findings_say_is_lost_off_working_gpus_only_once() -> None:
    # 15 GPUs of the gang look busy and do no work: two findings about the same gang do not count them twice.
    second = replace(a_fault(), id=32)
    assert a_board().strip.goodput_ratio == a_board(findings=(a_fault(), second)).strip.goodput_ratio == 5 / 21


def test_goodput_does_not_take_idle_gpus_off_twice() -> None:
    # Three of the gang's sixteen GPUs are idle and a finding says so: thirteen work.
    scene = a_scene()
    idle = {GpuKey(cluster=CLUSTER, node="gpu-00", uuid=gpu_uuid("gpu-00", index)): index for index in range(3)}
    gpus = {
        key: replace(now, reading=a_reading("gpu-00", idle[key], values=IDLE)) if key in idle else now
        for key, now in scene["window"].gpus.items()
        if key.node != "gpu-01"
    }
    readings = {key: replace(now, reading=a_reading(key.node, int(key.uuid[-1]))) for key, now in
                scene["window"].gpus.items() if key.node == "gpu-01"}  # fmt: skip
    finding = a_finding(id=40, node=None, rule="straggler", loss_gpus=3.0, workloads_hit=("research/llama-70b",))
    board = a_board(window=replace(scene["window"], gpus={**gpus, **readings}), findings=(finding,))
    assert board.strip.gpus_held_idle == 3
    assert board.strip.goodput_ratio == (13 + 5) / 21


def test_goodput_is_unknown_where_nothing_is_held() -> None:
    snapshot = a_snapshot([a_node("gpu-03")])
    window = a_window({"gpu-03": [a_reading("gpu-03", index, values=IDLE) for index in range(8)]}, at=NOW)
    board = a_board(snapshot=snapshot, window=window, findings=())
    assert board.strip.goodput_ratio is None


def test_a_silent_node_claims_nothing_and_is_named_as_a_blind_spot() -> None:
    scene = a_scene()
    late = replace(scene["window"].nodes["gpu-00"], received_at=NOW - timedelta(seconds=240))
    window = replace(scene["window"], nodes={**scene["window"].nodes, "gpu-00": late})
    board = a_board(window=window)
    assert states(board, "gpu-00") == ["silent"] * 8
    assert all(cell.activity_ratio is None and cell.power_watts is None for cell in board.nodes[0].cells)
    assert board.blind == ("No report from gpu-00 for 4 min.",)
    assert board.strip.gpus_reporting == 23


def test_a_rack_without_any_report_is_one_sentence() -> None:
    scene = a_scene()
    nodes = {
        name: replace(now, received_at=NOW - timedelta(seconds=240)) if name in ("gpu-02", "gpu-03") else now
        for name, now in scene["window"].nodes.items()
    }
    board = a_board(window=replace(scene["window"], nodes=nodes))
    assert board.blind == ("No report from rack r2 (2 nodes) for 4 min.",)


def test_a_node_that_never_reported_is_silent_and_said_so() -> None:
    scene = a_scene()
    snapshot = a_snapshot([*scene["snapshot"].nodes, a_node("gpu-04", rack="r2")], scene["snapshot"].workloads)
    board = a_board(snapshot=snapshot)
    assert states(board, "gpu-04") == ["silent"] * 8
    assert board.blind == ("No report from gpu-04 since this daemon started.",)


def test_many_silent_nodes_are_counted() -> None:
    nodes = [a_node(f"gpu-{number:02}", rack=None) for number in range(6)]
    board = a_board(snapshot=a_snapshot(nodes), window=a_window(at=NOW), findings=())
    assert board.blind == ("No report from 6 nodes (gpu-00 and others) since this daemon started.",)


def held_board(values: Mapping[str, float], **changes: object) -> list[str]:
    snapshot = a_snapshot([a_node("gpu-00", gpus=1)], [a_workload(on={"gpu-00": (0,)})])
    window = a_window({"gpu-00": [a_reading("gpu-00", 0, values=values, **changes)]}, snapshot=snapshot, at=NOW)
    return states(a_board(snapshot=snapshot, window=window, findings=()), "gpu-00")


def test_held_and_idle_needs_evidence_of_idleness() -> None:
    assert held_board(IDLE) == ["held_idle"]
    assert held_board(BUSY) == ["working"]
    assert held_board({"temperature_celsius": 31.0}) == ["unknown"]
    assert held_board({"utilization_ratio": 0.0}) == ["held_idle"]
    assert held_board({"utilization_ratio": 0.97, "sm_active_ratio": 0.0}) == ["held_idle"]


def test_a_mig_gpu_is_as_busy_as_its_busiest_instance() -> None:
    instances = (
        MigReading(gi=1, values={"graphics_engine_active_ratio": 0.0}),
        MigReading(gi=2, values={"graphics_engine_active_ratio": 0.6}),
    )
    assert held_board({}, instances=instances) == ["working"]


def test_one_idle_sample_does_not_make_a_busy_gpu_idle() -> None:
    scene = a_scene()
    key = GpuKey(cluster=CLUSTER, node="gpu-00", uuid=gpu_uuid("gpu-00", 0))
    now = replace(scene["window"].gpus[key], reading=a_reading("gpu-00", 0, values=IDLE))
    at_seconds = np.array([NOW.timestamp() - 30, NOW.timestamp()])
    series = Series(gpus=(key,), at_seconds=at_seconds, values=np.array([[0.9], [0.0]], dtype=np.float32))
    window = replace(scene["window"], gpus={**scene["window"].gpus, key: now}, series={"sm_active_ratio": series})
    assert states(a_board(window=window), "gpu-00")[0] == "working"
    still = replace(series, values=np.array([[0.0], [np.nan]], dtype=np.float32))
    assert states(a_board(window=replace(window, series={"sm_active_ratio": still})), "gpu-00")[0] == "held_idle"


def test_an_idle_finding_marks_its_gpu_however_busy_this_moment_is() -> None:
    idle = a_finding(id=40, node="gpu-02", gpu=0, rule="idle_gpu")
    board = a_board(findings=(idle,))
    cell = board.nodes[2].cells[0]
    assert (cell.state, cell.findings) == (CellState.HELD_IDLE, (40,))


def test_free_gpus_of_a_node_out_of_service_are_unusable() -> None:
    scene = a_scene()
    for change in ({"is_cordoned": True, "cordoned_by": "anna"}, {"is_ready": False}):
        nodes = [replace(node, **change) if node.name == "gpu-02" else node for node in scene["snapshot"].nodes]
        board = a_board(snapshot=a_snapshot(nodes, scene["snapshot"].workloads))
        assert states(board, "gpu-02") == ["working"] * 5 + ["unusable"] * 3


def test_a_free_gpu_with_a_fault_is_no_room() -> None:
    board = a_board(findings=(a_finding(id=9, node="gpu-02", gpu=6),))
    assert states(board, "gpu-02") == ["working"] * 5 + ["stranded", "unusable", "stranded"]


def test_without_a_scheduler_holders_are_what_the_reports_say() -> None:
    readings = {
        "gpu-00": [
            a_reading("gpu-00", 0, holder="research/train-0"),
            a_reading("gpu-00", 1, holder="research/train-0", values=IDLE),
            a_reading("gpu-00", 2, values=IDLE),
            a_reading("gpu-00", 3),
            a_reading("gpu-00", 4, state=GpuState.UNREADABLE, values={}),
        ]
    }
    board = a_board(snapshot=None, window=a_window(readings, at=NOW), findings=(), commands=())
    assert states(board, "gpu-00") == ["working", "held_idle", "free", "working", "unknown"]
    assert board.jobs[0].id == "research/train-0"
    assert board.jobs[0].gpus == (gpu_uuid("gpu-00", 0), gpu_uuid("gpu-00", 1))
    assert board.blind[0].startswith("No scheduler is read")
    told = Circumstances(unread=("gpu-07 is not seen.",))
    board = a_board(snapshot=None, blind=("No scheduler is set up.",), circumstances=told)
    assert board.blind[:2] == ("No scheduler is set up.", "gpu-07 is not seen.")
    assert sum("cheduler" in sentence for sentence in board.blind) == 1


def test_without_a_scheduler_and_without_holders_idle_is_not_called_free() -> None:
    window = a_window({"gpu-00": [a_reading("gpu-00", 0, values=IDLE)]}, at=NOW)
    assert states(a_board(snapshot=None, window=window, findings=()), "gpu-00") == ["unknown"]


def test_a_node_that_the_cluster_let_go_is_not_shown() -> None:
    scene = a_scene()
    gone = replace(scene["window"].nodes["gpu-00"], name="gpu-99", is_expected=False)
    board = a_board(window=replace(scene["window"], nodes={**scene["window"].nodes, "gpu-99": gone}))
    assert "gpu-99" not in [row.name for row in board.nodes]


def why(*, nodes: list, waiting: dict, others: list = (), **snapshot: object) -> str:
    job = a_workload("eval-9", **waiting)
    taken = a_snapshot(nodes, [job, *others], **snapshot)
    board = a_board(snapshot=taken, window=a_window(at=NOW), findings=(), commands=())
    return next(row.why for row in board.jobs if row.name == "eval-9")


def test_a_waiting_job_is_told_the_number_that_decides() -> None:
    half = [a_workload(f"job-{number}", on={f"gpu-{number:02}": range(5)}) for number in range(3)]
    nodes = [a_node(f"gpu-{number:02}") for number in range(3)]
    spare = a_node("gpu-09", is_spare=True)
    eight = {"gpus_per_pod": 8}
    assert why(nodes=nodes, waiting=eight, others=half) == "placement: 9 free, never 8 together"
    assert (
        why(nodes=[*nodes, spare], waiting=eight, others=half)
        == "placement: 9 free, never 8 together (1 spare kept for faults)"
    )
    assert why(nodes=nodes, waiting={"pods": 4, "gpus_per_pod": 8}) == "room: 24 GPUs free, 32 needed"
    assert (
        why(nodes=nodes, waiting={"pods": 4, "gpus_per_pod": 2}, others=half)
        == "placement: 9 free, seats for 3 of 4 pods of 2 GPUs"
    )
    assert why(nodes=nodes, waiting=eight) == "there is room: its scheduler has not started it yet"
    kept = Reservation(node="gpu-00", gpus=8, workload="other", command="trimtab:R3")
    assert why(nodes=nodes[:1], waiting=eight, reservations=(kept,)) == "room: 0 GPUs free, 8 needed"


def test_quota_is_never_called_placement() -> None:
    running = a_workload("train", on={"gpu-00": range(6)})
    quota = {"gpus_per_pod": 4, "waiting_reason": "quota"}
    said = why(nodes=[a_node()], waiting=quota, others=[running], queues=(Queue(name="research", gpus_quota=8),))
    assert said == "quota: queue research holds 6 of 8 GPUs, 4 needed"
    board = a_board(
        snapshot=a_snapshot([a_node()], [running, a_workload("eval-9", gpus_per_pod=4, waiting_reason="quota")]),
        window=a_window({"gpu-00": [a_reading("gpu-00", index, values=IDLE) for index in range(8)]}, at=NOW),
        findings=(),
    )
    assert states(board, "gpu-00")[6:] == ["free", "free"]


def test_the_schedulers_own_words_are_passed_on_and_a_stopped_job_names_who_stopped_it() -> None:
    assert why(nodes=[a_node()], waiting={"waiting_reason": "admission check provisioning"}) == (
        "admission check provisioning"
    )
    stopped = {"state": WorkloadState.SUSPENDED, "suspended_by": "trimtab:R12"}
    assert why(nodes=[a_node()], waiting=stopped) == "stopped by trimtab:R12"


def test_findings_stand_worst_first_and_closed_ones_leave_after_an_hour() -> None:
    mild = a_finding(id=2, severity=Severity.INFO)
    ended = replace(a_finding(id=3), state=FindingState.CLOSED, closed_at=NOW - timedelta(minutes=5))
    old = replace(a_finding(id=4), state=FindingState.CLOSED, closed_at=NOW - timedelta(minutes=61))
    board = a_board(findings=(old, ended, mild, a_fault()))
    assert [item.id for item in board.findings] == [31, 2, 3]


def test_steps_follow_the_commands_state() -> None:
    def shown(state: CommandState, **changes: object) -> list[str]:
        board = a_board(commands=(a_command(state=state, **changes),))
        return [step.state for step in board.commands[0].steps]

    assert shown(CommandState.PROPOSED) == ["waiting"] * 4
    assert shown(CommandState.APPROVED) == ["doing", "doing", "waiting", "waiting"]
    assert shown(CommandState.HELD) == ["done", "done", "waiting", "waiting"]
    assert shown(CommandState.CONFIRMED) == ["done", "done", "doing", "doing"]
    assert shown(CommandState.SUBMITTED) == ["done", "done", "done", "doing"]
    assert shown(CommandState.SETTLED) == ["done", "given back", "done", "done"]
    assert shown(CommandState.ABANDONED, approved_at=START) == ["given back"] * 4
    assert shown(CommandState.REJECTED) == ["waiting"] * 4
    step = a_board().commands[0].steps[1]
    assert step == Step(text="reserve research/llama-70b: 8 GPUs on gpu-03 for llama-70b-1", state="waiting")


def test_what_lasts_is_done_while_it_is_held_and_given_back_after() -> None:
    def shown(state: CommandState, **changes: object) -> list[str]:
        return [step.state for step in a_board(commands=(a_command(state=state, **changes),)).commands[0].steps]

    back = {"given_back_at": START, "submitted_at": START, "approved_at": START}
    assert shown(CommandState.SETTLED, **back) == ["given back", "given back", "done", "done"]
    stopped = {"submitted_at": START, "approved_at": START, "attempts": 1}
    assert shown(CommandState.MISSED, **stopped) == ["done", "given back", "given back", "given back"]
    assert shown(CommandState.MISSED, approved_at=START, attempts=1) == ["given back"] * 4
    assert shown(CommandState.REFUSED, attempts=1) == ["given back"] * 4
    assert shown(CommandState.REFUSED, approved_at=START) == ["waiting"] * 4
    assert shown(CommandState.EXPIRED, approved_at=START) == ["waiting"] * 4


def test_single_pods_single_gpus_and_returns_to_service_tick_off_too() -> None:
    writes = (
        Write(verb=Verb.TAINT_DEVICE, node="gpu-01", gpu="GPU-3", lasts=True),
        Write(verb=Verb.REPLACE, workload="research/llama-70b"),
        Write(verb=Verb.UNCORDON, node="gpu-02", lifts="trimtab:1ed9e0:R3"),
    )

    def shown(state: CommandState) -> list[str]:
        command = a_command(state=state, recommendation=a_recommendation(writes=writes), approved_at=START)
        return [step.state for step in a_board(commands=(command,)).commands[0].steps]

    assert shown(CommandState.APPROVED) == ["doing", "waiting", "waiting"]
    assert shown(CommandState.HELD) == ["done", "waiting", "waiting"]
    assert shown(CommandState.SUBMITTED) == ["done", "doing", "doing"]
    assert shown(CommandState.SETTLED) == ["done", "done", "done"]


def test_notice_runs_until_its_time_is_over() -> None:
    told = a_command(state=CommandState.APPROVED, noticed_at=NOW - timedelta(seconds=60))
    until = a_board(commands=(told,), notice_seconds=300.0).commands[0].notice_until
    assert until == NOW + timedelta(seconds=240)
    assert a_board(commands=(told,), notice_seconds=60.0).commands[0].notice_until is None
    begun = replace(told, state=CommandState.HELD)
    assert a_board(commands=(begun,), notice_seconds=300.0).commands[0].notice_until is None


def test_only_a_proposal_in_a_mode_that_writes_may_be_approved() -> None:
    def is_approvable(mode: Mode = Mode.APPROVE, command: object = None, **changes: object) -> bool:
        return a_board(mode=mode, commands=(command or a_command(),), **changes).commands[0].is_approvable

    assert is_approvable()
    assert is_approvable(Mode.ACT)
    assert not is_approvable(Mode.RECOMMEND)
    assert not is_approvable(rule_modes={"evacuate": Mode.RECOMMEND})
    assert not is_approvable(Mode.RECOMMEND, rule_modes={"evacuate": Mode.ACT})
    assert not is_approvable(command=a_command(state=CommandState.HELD))
    assert not is_approvable(command=a_command(recommendation=a_recommendation(kind=RecommendationKind.REBOOT)))
    late = a_recommendation(expires_at=NOW - timedelta(seconds=1))
    assert not is_approvable(command=a_command(recommendation=late))
    assert is_approvable(command=a_command(recommendation=late, snoozed_until=NOW + timedelta(seconds=60)))


def test_a_refusal_stands_beside_the_recommendation_that_it_is_against() -> None:
    refusal = Refusal(rule="budget", sentence="2 of 2 moves are under way.", purpose="evacuate:gpu-01")
    other = Refusal(rule="budget", sentence="no", subject=Subject(cluster=CLUSTER, node="gpu-01"))
    assert a_board(refusals=(other, refusal)).commands[0].refusal == refusal
    refused = a_command(state=CommandState.REFUSED, reason="gpu-03 is gone.")
    assert a_board(commands=(refused,)).commands[0].refusal.sentence == "gpu-03 is gone."


def test_what_rests_on_a_stopped_rule_says_so_before_anybody_approves_it() -> None:
    def refusal(around: Circumstances, **changes: object) -> Refusal | None:
        command = a_command(recommendation=a_recommendation(**changes))
        return a_board(commands=(command,), circumstances=around).commands[0].refusal

    stopped = Circumstances(breakers=(a_breaker(),))
    found = refusal(stopped, causes=("device_fault",))
    assert found is not None
    assert (found.rule, found.sentence) == ("breaker", f"R11 waits: {a_breaker().why}")
    assert refusal(stopped, causes=("hotspot",)) is None
    assert refusal(stopped, causes=("device_fault",), kind=RecommendationKind.UNCORDON) is None
    assert refusal(Circumstances(), causes=("device_fault",)) is None


def test_a_job_points_to_the_command_that_makes_room_for_it() -> None:
    helper = a_recommendation(for_workload="research/eval-9", moves=())
    board = a_board(commands=(a_command(), a_command(12, recommendation=helper)))
    assert {job.name: job.recommendation for job in board.jobs} == {"eval-9": 12, "llama-70b": 11, "eval-1": None}


def test_commands_that_are_over_leave_after_an_hour_but_one_being_undone_stays() -> None:
    long_ago = NOW - timedelta(hours=3)
    settled = replace(a_command(3, state=CommandState.SETTLED), changed_at=long_ago)
    undoing = replace(a_command(4, state=CommandState.SETTLED, undo_requested_by="anna"), changed_at=long_ago)
    assert [row.name for row in a_board(commands=(settled, undoing)).commands] == ["R4"]


def test_the_most_urgent_command_stands_first_then_what_gains_most() -> None:
    def one(id: int, *findings: int, gain: float) -> Command:
        made = Gain(gpu_hours=gain, horizon_hours=24.0)
        return a_command(id, recommendation=a_recommendation(findings=findings, purpose=f"p{id}", gain=made))

    over = a_command(13, state=CommandState.SETTLED)
    mild = replace(a_fault(), id=40, finding=replace(a_fault().finding, severity=Severity.WARNING))
    urgent, more, less = one(9, 40, 31, gain=5.0), one(11, 40, gain=90.0), one(12, 40, gain=20.0)
    better = one(10, gain=99.0)
    board = a_board(findings=(a_fault(), mild), commands=(over, better, less, more, urgent))
    assert a_fault().finding.severity is Severity.CRITICAL
    assert [row.name for row in board.commands] == ["R9", "R11", "R12", "R10", "R13"]


def test_the_box_hands_out_each_board_once_and_encodes_it_once() -> None:
    box = BoardBox()
    assert box.latest() is None
    assert box.wait(0, 0.0) is None
    woken: list[int] = []
    unsubscribe = box.subscribe(lambda: woken.append(1))
    box.publish(a_board())
    first = box.wait(0, 1.0)
    assert first is not None
    assert first.json is first.json
    assert msgspec.json.decode(first.json, type=Board) == first.board
    assert box.wait(first.sequence, 0.0) is None
    unsubscribe()
    box.publish(a_board())
    assert (len(woken), box.readers) == (1, 0)
