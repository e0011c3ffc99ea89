"""Every collector that an agent runs, as one list in order; each with the reason that it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trimtab.clock import Clock
from trimtab.collect.collector import Collector, Section
from trimtab.collect.host import HostCollector
from trimtab.collect.kernel_log import KernelLogFollower, read_host_time
from trimtab.collect.nvml import NvmlCollector, node_inventory, reader_with_deadline
from trimtab.errors import CollectError
from trimtab.settings import AgentSettings


class KernelLogCollector:
    """Events of the kernel log; where it cannot be opened it is tried again, and said until then."""

    def __init__(self, follower: Callable[[], KernelLogFollower]) -> None:
        """`follower` opens the log."""
        self._open = follower
        self._follower: KernelLogFollower | None = None

    def collect(self) -> Section:
        """What the kernel said since the last tick. Raises NoData, CollectError."""
        if self._follower is None:
            self._follower = self._open()
        return Section(events=tuple(self._follower.events()))

    def commit(self) -> None:
        """The events given so far are kept: do not give them again after a restart."""
        if self._follower is not None:
            self._follower.commit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectors:
    """The collectors by name, what to tell them once a report is on disk, and when the agent ends."""

    by_name: tuple[tuple[str, Collector], ...]
    commits: tuple[Callable[[], None], ...] = ()
    closes: tuple[Callable[[], None], ...] = ()


def collectors(settings: AgentSettings, *, clock: Clock, boot_id: str, state_directory: Path | None) -> Collectors:
    """What an agent reads on a real node. Without a state directory nothing is remembered over a restart."""
    nvml = NvmlCollector(
        clock=clock,
        inventory=node_inventory(state_directory, boot_id),
        reader=reader_with_deadline(clock),
        library=settings.nvml_library,
        slow_seconds=settings.expensive_interval_seconds,
    )
    host = ("host", HostCollector())  # a starved CPU or memory explains a slow GPU
    if state_directory is None or settings.kernel_log == "none":
        return Collectors(by_name=(("nvml", nvml), host), closes=(nvml.close,))
    kernel_log = KernelLogCollector(
        lambda: KernelLogFollower(settings.kernel_log, clock=clock, state_directory=state_directory)
    )
    return Collectors(
        by_name=(
            ("nvml", nvml),  # all GPU values; one GPU's trouble stays its own
            ("kernel_log", kernel_log),  # XIDs: the kernel log has those that NVML's events miss
            host,
        ),
        commits=(kernel_log.commit,),
        closes=(nvml.close,),
    )


def boot_id() -> str:
    """This boot's id; empty where the host does not say."""
    try:
        return read_host_time().boot_id
    except CollectError:
        return ""
