"""The root of the demo: the simulated cluster and all agents in this process, the real daemon beside it."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from trimtab.clock import Clock, ScaledClock, SystemClock
from trimtab.demo.agents import Fleet
from trimtab.demo.child import DaemonChild
from trimtab.demo.ground import Ground, Options, give_tokens, write_settings
from trimtab.demo.hearing import Hearing
from trimtab.demo.pager import OnCallEnd, settings_text
from trimtab.demo.people import ClientFile, People, count_states, left_behind
from trimtab.demo.plots import plots_of
from trimtab.demo.ports import Ports
from trimtab.demo.servers import ALERTMANAGER, Servers
from trimtab.demo.stories import Story, Summary, numbers_of
from trimtab.demo.telling import Narrator, Say, summary_lines
from trimtab.errors import ClientError, TrimtabError
from trimtab.loop import Beat
from trimtab.model.board import Board, CommandRow
from trimtab.model.cluster import WorkloadState
from trimtab.service import Service
from trimtab.sim.cluster import STEP_SECONDS, SimulatedCluster
from trimtab.sim.control import ControlServer
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.scenario import check_nodes, populate, spares_of
from trimtab.sim.writes import WriteDesk
from trimtab.store.scratch import own_schema, stored_reports

CLUSTER = "hall-a"
LOOK_SECONDS = 0.25
"""The board is looked at this often, in wall seconds."""
_READY_SECONDS_MAX = 60.0
_LAST_LOOK_SECONDS_MAX = 20.0
_FIRST_KILL_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What `--kill-daemon` came to."""

    done: int
    restarts: int
    under_way: int
    """Kills while a command had begun and was not over."""
    left_behind: tuple[str, ...]
    """What a mark holds though no live command has it: must be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a demo came to."""

    summary: Summary
    kills: Kills


def run(options: Options, *, say: Say, service: Service) -> Result:
    """Run a demo until its time is over or `service` is told to stop. Raises TrimtabError."""
    check_nodes(options.nodes)
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="trimtab-demo-"))
        if options.is_kept:
            say(f"Everything of this demo is kept in {scratch}")
        else:
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        ports = Ports()
        stack.callback(ports.close)
        people_port, ingest_port = ports.people(options.port), ports.any()
        url = stack.enter_context(
            own_schema(
                options.database or "sqlite:///trimtab.db",
                name=scratch.name.replace("-", "_"),
                is_kept=options.is_kept,
            )
        )
        ground = Ground(
            scratch=scratch, cluster=CLUSTER, people_port=people_port, ingest_port=ingest_port, database_url=url
        )
        servers = Servers(ground, ports) if options.has_servers else None
        return Demo(options, ground, servers=servers, say=say, service=service, stack=stack).run()


class Demo:
    """One run. Everything that it starts is on the stack, and ends with it."""

    def __init__(
        self,
        options: Options,
        ground: Ground,
        *,
        servers: Servers | None,
        say: Say,
        service: Service,
        stack: ExitStack,
    ) -> None:
        """Build the cluster and open every agent's spool; nothing runs yet."""
        self._servers = servers
        self._options, self._ground, self._service, self._stack, self._say = options, ground, service, stack, say
        self._wall: Clock = SystemClock()
        self._clock = ScaledClock(anchor=self._wall.now(), speed=options.speed)
        kernel = KernelFiles(ground.scratch / "kernel")
        self._cluster = SimulatedCluster(
            name=ground.cluster,
            nodes=options.nodes,
            spares=spares_of(options.nodes),
            seed=options.seed,
            start=self._clock.now(),
            kernel=kernel,
        )
        self._cast = populate(self._cluster, seed=options.seed)
        self._desk = WriteDesk(self._cluster)
        self._control = ControlServer(self._cluster, self._desk)
        give_tokens(ground, list(self._cluster.nodes))
        self._fleet = Fleet(self._cluster, ground, kernel=kernel, clock=self._clock)
        self._advancing = Beat("sim", self._advance, interval_seconds=STEP_SECONDS, clock=self._clock)
        self._child = DaemonChild(ground)
        self._on_call = OnCallEnd(ground.scratch)
        self._people = People(ground.url, ground.state_directory / "operator.token")
        self._client_file = ClientFile()
        self._narrator = Narrator(say, speed=options.speed, is_auto_approved=options.is_auto_approved)
        self._stories = [Story(plot=plot) for plot in plots_of(self._cluster, self._cast)]
        self._hearing = Hearing(self._stories, self._narrator)
        self._refused: set[str] = set()
        self._agreed: set[tuple[int, str, datetime]] = set()
        self._pause = threading.Event()
        self._remarks: tuple[str, ...] = ()
        self._ready_at_seconds = 0.0
        self._ready_clock_seconds = 0.0
        self._kill_times = self._plan_kills()
        self._kills_under_way = 0

    def run(self) -> Result:
        """Start everything, watch the stories, end everything, and add up."""
        self._start()
        self._open()
        while not self._is_over() and not self._service.wait(LOOK_SECONDS):
            self._look()
        return self._end()

    # --- begin

    def _start(self) -> None:
        self._remarks = write_settings(
            self._ground,
            nodes=self._options.nodes,
            control_url=self._control.url,
            speed=self._options.speed,
            anchor=self._clock.anchor,
            more=settings_text(
                self._on_call, alertmanager_url=self._servers.url_of(ALERTMANAGER) if self._servers else ""
            ),
        )
        self._on_call.start()
        self._stack.callback(self._on_call.stop)
        self._control.start()
        self._stack.callback(self._control.stop)
        self._advancing.start()
        self._stack.callback(self._advancing.stop)
        self._stack.callback(self._people.close)
        self._stack.callback(self._fleet.close)
        self._child.start()
        self._stack.callback(self._child.stop)
        if self._servers is not None:
            self._stack.callback(self._servers.stop)
            self._servers.start(self._on_call)
        self._fleet.start()
        self._stack.callback(self._fleet.stop)

    def _open(self) -> None:
        """Wait until the daemon shows every GPU, then say where everything is."""
        link = self._when_ready()
        self._stack.callback(self._client_file.restore)
        self._client_file.write(url=self._ground.url, token=self._people.token())
        self._ready_at_seconds = self._wall.monotonic_seconds()
        self._ready_clock_seconds = self._clock.monotonic_seconds()
        self._narrator.opening(
            link=link,
            nodes=len(self._cluster.nodes),
            gpus=sum(len(node.gpus) for node in self._cluster.node_list),
            remarks=self._remarks,
            around=self._servers.opening() if self._servers is not None else (),
            log=str(self._ground.log_file),
        )

    def _when_ready(self) -> str:
        gives_up_at = self._wall.monotonic_seconds() + _READY_SECONDS_MAX
        last = "it has not answered yet"
        while self._wall.monotonic_seconds() < gives_up_at:
            if self._child.pid is None:
                raise TrimtabError(f"The daemon did not start. Its last words: {self._child.last_words()}")
            try:
                board = self._people.board()
                if board.strip.gpus_reporting >= board.strip.gpus_total > 0:
                    return self._people.new_link()
                last = f"{board.strip.gpus_reporting} of {board.strip.gpus_total} GPUs report"
            except ClientError as error:
                last = str(error)
            if self._service.wait(LOOK_SECONDS):
                raise TrimtabError("The demo was stopped before the daemon was ready.")
        raise TrimtabError(f"The daemon is not ready: {last}. Its last words: {self._child.last_words()}")

    # --- while it runs

    @property
    def _wall_seconds(self) -> float:
        return self._wall.monotonic_seconds() - self._ready_at_seconds

    def _is_over(self) -> bool:
        return self._options.for_seconds is not None and self._wall_seconds >= self._options.for_seconds

    def _advance(self) -> str:
        return f"{self._cluster.advance(self._clock.now())} steps"

    def _look(self) -> None:
        self._begin_stories()
        self._kill_when_due()
        self._see_truth()
        board = self._board()
        if board is not None:
            self._see(board)
        self._hear()
        self._keep_up()

    def _hear(self) -> None:
        """What reached on-call, after the board: a page names a finding that the board has."""
        for arrived in self._on_call.arrived():
            self._hearing.hear(arrived, ready_at_seconds=self._ready_at_seconds)
        for sentence in self._servers.look() if self._servers is not None else ():
            self._narrator.line(self._wall_seconds, "beside", sentence)

    def _begin_stories(self) -> None:
        since_seconds = self._clock.monotonic_seconds() - self._ready_clock_seconds
        for story in self._stories:
            if not story.is_begun and since_seconds >= story.plot.begins_at_seconds:
                with self._cluster.lock:
                    story.start(wall_seconds=self._wall_seconds, at=self._cluster.now, truth=self._cluster.truth())
                    story.plot.begin()
                self._narrator.story_begins(story, self._wall_seconds)

    def _see_truth(self) -> None:
        with self._cluster.lock:
            truth, now = self._cluster.truth(), self._cluster.now
        for story in self._stories:
            story.see_truth(truth, wall_seconds=self._wall_seconds, at=now)
            self._narrator.story_settled(story, self._wall_seconds)

    def _board(self) -> Board | None:
        try:
            board = self._people.board()
        except ClientError:
            return None  # it was killed, or is starting: `_keep_up` sees to it
        self._child.is_well()
        return board

    def _see(self, board: Board) -> None:
        self._narrator.board(board, self._wall_seconds)
        for story in self._stories:
            story.see_board(board, wall_seconds=self._wall_seconds)
        if self._options.is_auto_approved:
            self._approve(board)

    def _approve(self, board: Board) -> None:
        for row in board.commands:
            # A board may be older than our last approval; what returned to proposed is asked for anew.
            agreed = (row.command.id, row.fingerprint, row.command.changed_at)
            if not row.is_approvable or agreed in self._agreed:
                continue
            try:
                self._people.approve(row)
            except ClientError as error:
                # It changed since the board was made, or the daemon is down: the next look tries what stands then.
                if str(error) not in self._refused:
                    self._refused.add(str(error))
                    self._narrator.line(self._wall_seconds, "", f"{row.name}  not approved: {error}")
                continue
            self._agreed.add(agreed)
            self._narrator.line(self._wall_seconds, "", f"{row.name}  approved by --auto-approve")

    def _keep_up(self) -> None:
        sentence = self._child.keep_up()
        if sentence is not None:
            self._narrator.line(self._wall_seconds, "daemon", sentence)
        dead = [*self._fleet.dead_beats, *([] if self._advancing.is_alive else ["sim"])]
        if dead:
            raise TrimtabError(f"Threads of the demo died: {', '.join(dead)}; their tracebacks are above.")

    # --- kill -9, for tests and drills

    def _plan_kills(self) -> list[float]:
        last = (self._options.for_seconds or 60.0) * 0.85
        source = random.Random(f"kills {self._options.seed}")
        return sorted(source.uniform(_FIRST_KILL_SECONDS, last) for _ in range(self._options.kill_daemon))

    def _kill_when_due(self) -> None:
        # A daemon that is not up again yet is not killed again: each kill hits one that works.
        if self._kill_times and self._wall_seconds >= self._kill_times[0] and self._child.pid is not None:
            self._kill_times.pop(0)
            self._kills_under_way += any(story.is_under_way for story in self._stories)
            self._child.kill()
            self._narrator.line(self._wall_seconds, "daemon", f"kill -9 ({self._child.kills})")

    # --- end

    def _end(self) -> Result:
        commands, left = self._last_look()
        self._fleet.stop()
        self._child.stop()
        stored = stored_reports(self._ground.database_url, state_directory=self._ground.state_directory)
        books = self._fleet.books
        summary = Summary(
            stories=numbers_of(self._stories),
            reports_acknowledged=books.total,
            reports_lost=len(books.lost(stored)),
            commands=commands,
        )
        self._tell(summary)
        child = self._child
        kills = Kills(done=child.kills, restarts=child.restarts, under_way=self._kills_under_way, left_behind=left)
        return Result(summary=summary, kills=kills)

    def _tell(self, summary: Summary) -> None:
        if not self._options.is_json:
            for line in summary_lines(summary):
                self._say(line)

    def _stopped_by_nobody(self) -> list[str]:
        jobs = self._cluster.truth().values()
        return [f"{job.id} is stopped" for job in jobs if job.state is WorkloadState.SUSPENDED and not job.suspended_by]

    def _last_look(self) -> tuple[Mapping[str, int], tuple[str, ...]]:
        """How the commands stand and what is held without one; a daemon that was just killed gets time to tidy up."""
        gives_up_at = self._wall.monotonic_seconds() + _LAST_LOOK_SECONDS_MAX
        rows: tuple[CommandRow, ...] = ()
        left: tuple[str, ...] = ("the daemon could not be asked",)
        while self._wall.monotonic_seconds() < gives_up_at:
            self._keep_up()
            try:
                rows = self._people.commands()
                left = (*left_behind(self._desk.marks_held(), rows), *self._stopped_by_nobody())
            except ClientError:
                pass  # it is starting
            if not left:
                break
            self._pause.wait(LOOK_SECONDS)
        return count_states(rows), left


def to_json(result: Result) -> str:
    """The summary as one JSON object; what became of the kills beside it, where there were any."""
    shown: dict[str, object] = msgspec.to_builtins(result.summary)
    if result.kills.done:
        shown["kills"] = msgspec.to_builtins(result.kills)
    return msgspec.json.encode(shown).decode()
