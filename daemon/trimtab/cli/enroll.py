"""`trimtab enroll`: join tokens for nodes, who is enrolled, and taking it back; by the API or beside the daemon."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path

import click
import msgspec

from trimtab.cli.client import say_json
from trimtab.cli.enroll_desk import Desk, desk_options
from trimtab.cli.node_names import names_of
from trimtab.cli.text import paragraph, say, width
from trimtab.cli.values import Span
from trimtab.clock import SystemClock, age_text, count_text, iso
from trimtab.errors import ClientError
from trimtab.show.api_types_enrolment import EnrolledRow, JoinRow, Joins

JOIN_SUFFIX = ".join"


class _Enroll(click.Group):
    """`enroll NODE…` gives tokens; the other verbs go by their names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Whatever does not begin with a verb of ours is `give`."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["give", *args]
        return super().parse_args(ctx, args)


_reason = click.option("--reason", default="", help="Why; kept in the audit.")


@click.group(cls=_Enroll)
def enroll() -> None:
    """Let nodes in: a join token each, bound to the node's name, good once and for an hour.

    The node's agent turns it into a credential of its own and renews that by itself. Needs the role admin, or
    --settings beside the daemon.

    \b
    Examples: trimtab enroll gpu-07
              trimtab enroll 'gpu-[01-40]' --for 8h --out tokens/
              trimtab enroll list
              trimtab enroll revoke gpu-07 --reason "sent back to the vendor"
    """


@enroll.command()
@click.argument("nodes", nargs=-1, metavar="NODE...")
@click.option("--file", "files", multiple=True, type=click.Path(path_type=Path), help="Names, one a line; # comments.")
@click.option("--for", "lasts_seconds", type=Span(), help="How long the tokens are good: 1h, 30m, 2d.  [default: 1h]")
@click.option("--again", is_flag=True, help="Also nodes that are enrolled: what they have ends when the new is used.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Write each token into a file NODE.join of this folder (0600), and print none.")  # fmt: skip
@_reason
@desk_options
def give(
    desk: Desk,
    *,
    is_json: bool,
    nodes: tuple[str, ...],
    files: tuple[Path, ...],
    lasts_seconds: float | None,
    again: bool,
    out: Path | None,
    reason: str,
) -> None:
    """Make a join token for each NODE and print it once; the daemon keeps only its hash. All, or none.

    A name may hold ranges: gpu-[01-40], gpu-[1,3,7-9].hall-a (quote them). A token that a node had and did not use is
    withdrawn. A node that is enrolled is refused without --again.

    \b
    Examples: trimtab enroll 'gpu-[01-40]' --json | jq -r '.tokens[] | [.node, .token] | @tsv'
              trimtab enroll --file nodes.txt --out tokens/
              trimtab enroll gpu-07 --again --reason "new system disk"
    """
    names = names_of(nodes, files)
    if not names:
        raise click.UsageError("Name at least one node, or give --file FILE.")
    if out is not None:
        _make_folder(out)
    made = desk.invite(names, lasts_seconds=lasts_seconds, again=again, reason=reason)
    if out is not None:
        _write(out, made.tokens)
    if is_json:
        say_json(msgspec.json.encode(made if out is None else _without_tokens(made)))
        return
    _say_made(made, out)


@enroll.command("list")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@desk_options
def list_(desk: Desk, *, is_json: bool, nodes: tuple[str, ...]) -> None:
    """Show which nodes are enrolled, by whom, until when, when they last came in, and who has a token waiting.

    \b
    Examples: trimtab enroll list
              trimtab enroll list --json | jq -r '.nodes[] | select(.state != "enrolled") | .node'
    """
    wanted = set(names_of(nodes))
    found = desk.nodes()
    rows = tuple(row for row in found.nodes if not wanted or row.node in wanted)
    if is_json:
        say_json(msgspec.json.encode({"nodes": rows}))
        return
    empty = ["No node is enrolled: trimtab enroll NODE. (Tokens of `trimtab token node` are in a file of their own.)"]
    say(_lines(rows, SystemClock().now()) or empty)


@enroll.command()
@click.argument("node")
@_reason
@desk_options
def revoke(desk: Desk, *, is_json: bool, node: str, reason: str) -> None:
    """Refuse NODE's reports from now on, at every daemon, and withdraw its join token. Its agent keeps its reports.

    \b
    Example: trimtab enroll revoke gpu-07 --reason "sent back to the vendor"
    """
    done = desk.revoke(node, reason=reason)
    say_json(msgspec.json.encode(done)) if is_json else say([done.sentence])


@enroll.command()
@click.argument("node")
@_reason
@desk_options
def rotate(desk: Desk, *, is_json: bool, node: str, reason: str) -> None:
    """Have NODE's agent make a new credential after its next report; the old one ends when the new one is used.

    For a credential that somebody else may have seen, revoke it and enrol the node again: whoever has it could also
    renew it.

    \b
    Example: trimtab enroll rotate gpu-07
    """
    done = desk.rotate(node, reason=reason)
    say_json(msgspec.json.encode(done)) if is_json else say([done.sentence])


def _say_made(made: Joins, out: Path | None) -> None:
    first = made.tokens[0]
    url = made.agent_urls[0] if made.agent_urls else "https://DAEMON:9741"
    if out is None:
        wide = max(len(row.node) for row in made.tokens)
        for row in made.tokens:  # as they are, at any width: they are copied
            click.echo(f"{row.node:<{wide}}  {row.token}")
    else:
        click.echo(f"{count_text(len(made.tokens), 'token')} in {out}/, one file a node: {first.node}{JOIN_SUFFIX}")
    join = f"trimtab join {shlex.quote(url)} --token-file -"
    file = f"{shlex.quote(str(out))}/{first.node}{JOIN_SUFFIX}" if out is not None else "FILE"
    click.echo(
        f"Good once each, until {iso(first.expires_at)}, shown this once. On the node: {join}, with the token on "
        f"standard input. From here: ssh {first.node} sudo {join} < {file}. Or into its join_token_file.",
        err=True,
    )


def _lines(rows: tuple[EnrolledRow, ...], now: datetime) -> list[str]:
    """One line a node, folded under its name where the terminal is narrow."""
    wide = max((len(row.node) for row in rows), default=0) + 2
    lines: list[str] = []
    for row in rows:
        first, *rest = paragraph(_said(row, now), max(width() - wide, 40))
        lines += [f"{row.node:<{wide}}{first}", *(" " * wide + line for line in rest)]
    return lines


def _said(row: EnrolledRow, now: datetime) -> str:
    said = [row.state]
    if row.expires_at is not None and not row.said:
        said.append(f"until {iso(row.expires_at)}")
    if row.renewals:
        said.append(f"renewed {row.renewals} times" if row.renewals > 1 else "renewed once")
    if row.is_rotation_asked:
        said.append("a new credential is asked for")
    if row.join_expires_at is not None:
        said.append(f"a join token waits until {iso(row.join_expires_at)}")
    if row.said:
        said.append(row.said.rstrip("."))
    tail = [f"last used {_ago(row.last_used_at, now)}" if row.last_used_at else "never used"] if row.since else []
    tail += [f"by {row.enrolled_by}"] if row.enrolled_by else []
    return ", ".join(said) + (f"; {', '.join(tail)}" if tail else "")


def _ago(moment: datetime, now: datetime) -> str:
    return f"{age_text((now - moment).total_seconds())} ago"


def _without_tokens(made: Joins) -> Joins:
    tokens = tuple(msgspec.structs.replace(row, token="") for row in made.tokens)
    return msgspec.structs.replace(made, tokens=tokens)


def _make_folder(out: Path) -> None:
    """Before any token is made: what cannot be written is not asked for."""
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ClientError(f"{out}: {error.strerror}. No token was made.") from error


def _write(out: Path, rows: tuple[JoinRow, ...]) -> None:
    for row in rows:
        path = out / (row.node.replace("/", "_") + JOIN_SUFFIX)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(row.token + "\n")
        except OSError as error:
            raise ClientError(
                f"{path}: {error.strerror}. Its token is lost; make the tokens again with --out elsewhere."
            ) from error
