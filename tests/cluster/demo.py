"""`make cluster-demo`: stories a to d on a real control plane, told as they happen; nothing of it stays."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster import build, stories
from tests.cluster.manifests import install
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.whole import Whole

VOLCANO_CRDS = Path(__file__).parent / "volcano" / "crds.yaml"
Story = Callable[[Whole, stories.Say], object]
STORIES: Mapping[str, tuple[Story, ...]] = {
    "a": (stories.story_a,),
    "b": (stories.story_b,),
    "c": (stories.story_c, lambda whole, say: stories.story_c(whole, say, has_stream=True)),
    "d": (
        lambda whole, say: stories.story_d(whole, say, restarts=False),
        lambda whole, say: stories.story_d(whole, say, restarts=True),
    ),
}
TITLES = {
    "a": "XID 79 under a gang that can lose one pod: one pod is replaced",
    "b": "A hot node under a gang that cannot: its checkpoint is awaited, then it moves whole",
    "c": "A job waits for 8 GPUs on one node: room is made; then the same while small jobs keep arriving",
    "d": "Volcano: a gang leaves a bad node, without and with a policy that restarts it",
}


def main() -> int:
    """Boot, tell each story asked for, end everything."""
    parser = argparse.ArgumentParser(prog="make cluster-demo", description=__doc__)
    parser.add_argument("stories", nargs="*", default=list(STORIES), help="a b c d; all without")
    chosen = parser.parse_args().stories
    unknown = [one for one in chosen if one not in STORIES]
    if unknown:
        parser.error(f"there is no story {unknown[0]}; there are {', '.join(STORIES)}")
    if reason := build.why_not():
        print(reason, file=sys.stderr)
        return 1
    print("== booting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and Kueue on loopback", flush=True)
    plane = Plane.boot(build.build(), crds=[VOLCANO_CRDS])
    try:
        install(plane.client)
        print(f"== up after {plane.boot_seconds['total']:.1f} s", flush=True)
        for name in chosen:
            print(f"\n== story {name}: {TITLES[name]}", flush=True)
            for story in STORIES[name]:
                _tell(plane, story)
    finally:
        plane.stop()
    return 0


def _tell(plane: Plane, story: Story) -> None:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    space = Space(plane.client, prefix="demo")
    with tempfile.TemporaryDirectory(prefix="trimtab-cluster-demo-") as home:
        whole = Whole(plane, space, Path(home))
        try:
            story(whole, say)
        finally:
            whole.close()
            space.remove()


if __name__ == "__main__":
    sys.exit(main())
