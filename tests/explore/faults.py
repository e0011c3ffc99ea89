"""What can go wrong in one beat of a daemon over the fake API server: at each of its writes, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trimtab.errors import SchedulerUnavailable

Points = list[tuple[str, str]]


def is_write(point: str) -> bool:
    """Whether a point of the API server is one of our writes."""
    return "PATCH" in point or "POST" in point or "DELETE" in point or "PUT" in point


class Faulty:
    """Crashes, lost replies, a lost lease and a late look, for a world whose rig has a `kube` and a `ledger`."""

    rig: Any
    saved: Any

    def faults(self) -> Iterator[tuple[str, Any]]:
        """Each fault, with the world after it."""
        crashed, points = self._crashes()
        yield from crashed
        for number, (where, point) in enumerate(points):
            if where == "cluster":
                name = "reply lost" if point.startswith("after") else "lease lost"
                yield f"{name} {point}", self._failed(number, is_for_good=name == "lease lost")
        before = self.saved
        for name, after in self.steps():
            late = after.fork()
            late.take_up()
            late.beat_once(before)
            late.put_down()
            yield f"{name}, then a beat on a late look", late
        long = self.fork()
        long.wait()
        long.take_up()
        long.beat_once()
        long.put_down()
        yield "nothing for a long time, then a beat", long

    def _crashes(self) -> tuple[list[tuple[str, Any]], Points]:
        """The world as a crash leaves it at each point of one beat."""
        world, points = self.fork(), Points()
        found: list[tuple[str, Any]] = []

        def at(where: str) -> Callable[[str], None]:
            def point(name: str) -> None:
                if where == "ledger" or is_write(name):
                    points.append((where, name))
                    left = world.fork()
                    left.saved = world.now()
                    found.append((f"crash {name}", left))

            return point

        world.take_up()
        world.rig.ledger.at_point, world.rig.kube.at_point = at("ledger"), at("cluster")
        world.beat_once()
        world.rig.kube.at_point = lambda _: None
        return found, points

    def _failed(self, number: int, *, is_for_good: bool) -> Any:
        """A beat in which the call at one point fails for the daemon; and all that follow, once the lease is lost."""
        world, count = self.fork(), [0]

        def point(name: str) -> None:
            if not is_write(name):
                return
            here = count[0]
            count[0] += 1
            if here == number or (is_for_good and here > number and name.startswith("before")):
                raise SchedulerUnavailable("no answer")

        def counted(_: str) -> None:
            count[0] += 1

        world.take_up()
        world.rig.ledger.at_point, world.rig.kube.at_point = counted, point
        world.beat_once()
        world.rig.ledger.at_point = world.rig.kube.at_point = lambda _: None
        world.put_down()
        return world
