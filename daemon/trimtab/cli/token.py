"""`trimtab token`: tokens of agents, made beside the daemon; tokens of people and programs, given by an admin."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
import msgspec

from trimtab import settings as settings_module
from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.text import Row, block, say, width
from trimtab.clock import SystemClock, age_text, iso
from trimtab.model.people import Role
from trimtab.ship.tokens import give_token, revoke_token, tokens_path
from trimtab.show.api_types_people import Ended, SessionRow, Sessions, TokenGiven, TokenRow, Tokens


@click.group()
def token() -> None:
    """Make and revoke tokens: with which agents report, with which people and programs sign in.

    \b
    Examples: trimtab token node gpu-07
              trimtab token person anna --role operator --days 90
              trimtab token person alertmanager --role webhook
              trimtab token list
              trimtab token revoke T3
    """


@token.command()
@click.argument("name")
@click.option(
    "--settings", "settings_file", type=click.Path(path_type=Path), help="The daemon's settings file: says where."
)
@click.option("--state-directory", type=click.Path(path_type=Path), help="The daemon's state directory.")
@click.option("--revoke", is_flag=True, help="Forget the node's token; its agent keeps its reports until it has one.")
@click.option("--json", "is_json", is_flag=True, help="The same data as JSON.")
def node(name: str, settings_file: Path | None, state_directory: Path | None, revoke: bool, is_json: bool) -> None:
    """Make the token of node NAME and print it once; the daemon keeps only its hash. Run it beside the daemon.

    Put it into the agent's token_file. A token that the node had before no longer works.

    \b
    Examples: trimtab token node gpu-07 > gpu-07.token
              trimtab token node gpu-07 --revoke
    """
    path = _path(settings_file, state_directory)
    if revoke:
        revoke_token(path, name)
        if is_json:
            say_json(msgspec.json.encode({"node": name, "token": None}))
        click.echo(f"{name} has no token any more ({path}).", err=True)
        return
    made, replaces = give_token(path, name)
    say_json(msgspec.json.encode({"node": name, "token": made})) if is_json else click.echo(made)
    former = " Its former token no longer works." if replaces else ""
    click.echo(f"This is the token of {name}, shown this once; its hash is in {path}.{former}", err=True)


class _TokenId(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on only
    """`T3`, or 3."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).strip().upper().removeprefix("T").removeprefix("S")
        if not text.isdecimal() or len(text) > 15:
            self.fail(f"{value!r} is no id; `trimtab token list` shows them, such as T3.", param, ctx)
        return int(text)


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How long it is good; else until revoked.")
@daemon_options
def person(client: Client, *, is_json: bool, name: str, role: str, days: float | None) -> None:
    """Give NAME a token and print it once; the daemon keeps only its hash. Needs the role admin.

    Roles: viewer reads; operator also decides; admin also gives tokens and releases everything; webhook is for
    programs that deliver to the webhooks, and nothing else. What they do is audited under NAME.

    \b
    Examples: trimtab token person anna --role operator --days 90
              trimtab token person alertmanager --role webhook
    """
    raw = client.post_raw("/api/v1/tokens", {"name": name, "role": role, **({"days": days} if days else {})})
    if is_json:
        say_json(raw)
        return
    given = client.decoded(raw, TokenGiven)
    click.echo(given.secret)
    until = f"until {iso(given.token.expires_at)}" if given.token.expires_at else "until it is revoked"
    click.echo(f"This is T{given.token.id}, the token of {name} ({role}), shown this once; good {until}.", err=True)


@token.command("list")
@daemon_options
def list_(client: Client, *, is_json: bool) -> None:
    """Show who has which token, until when, and when it was last used. Needs the role admin.

    \b
    Examples: trimtab token list
              trimtab token list --json | jq -r '.tokens[] | select(.is_good) | .name'
    """
    raw = client.get_raw("/api/v1/tokens")
    if is_json:
        say_json(raw)
        return
    rows = [_token_row(one) for one in client.decoded(raw, Tokens).tokens]
    say(block("tokens", rows, width()) or ["Nobody was given a token yet: trimtab token person NAME --role operator"])


@token.command()
@click.argument("id", type=_TokenId(), metavar="ID")
@click.option("--reason", default="", help="Why; kept in the audit.")
@daemon_options
def revoke(client: Client, *, is_json: bool, id: int, reason: str) -> None:
    """Let a token (T3) open nothing any more; its sessions at the page are over at once. Needs the role admin.

    \b
    Example: trimtab token revoke T3 --reason "left the team"
    """
    raw = client.post_raw(f"/api/v1/tokens/{id}/revoke", {"reason": reason})
    say_json(raw) if is_json else say([client.decoded(raw, Ended).sentence])


@token.command()
@click.option("--end", "ended", type=_TokenId(), metavar="ID", help="End this one (S7) instead.")
@daemon_options
def sessions(client: Client, *, is_json: bool, ended: int | None) -> None:
    """Show who is signed in at the page (an admin sees all, others their own), or end a session.

    \b
    Examples: trimtab token sessions
              trimtab token sessions --end S7
    """
    if ended is not None:
        raw = client.post_raw(f"/api/v1/sessions/{ended}/end", {})
        say_json(raw) if is_json else say([client.decoded(raw, Ended).sentence])
        return
    raw = client.get_raw("/api/v1/sessions")
    if is_json:
        say_json(raw)
        return
    rows = [_session_row(one) for one in client.decoded(raw, Sessions).sessions]
    say(block("sessions", rows, width()) or ["Nobody is signed in at the page."])


def _token_row(row: TokenRow) -> Row:
    if row.revoked_at is not None:
        state = f"revoked {iso(row.revoked_at)}"
    elif not row.is_good and row.expires_at is not None:
        state = f"ran out {iso(row.expires_at)}"
    else:
        state = f"good until {iso(row.expires_at)}" if row.expires_at else "good until revoked"
    used = f"last used {_ago(row.last_used_at)}" if row.last_used_at else "never used"
    return Row(f"T{row.id}", f"{row.name}, {row.role}, {state}", f"{used}, given by {row.created_by}")


def _session_row(row: SessionRow) -> Row:
    where = f" from {row.peer}" if row.peer else ""
    main = f"{row.who}, {row.role}, by {row.signed_in_by}{where}, until {iso(row.expires_at)}"
    return Row(f"S{row.id}", main, f"last seen {_ago(row.last_used_at)}")


def _ago(moment: datetime) -> str:
    return f"{age_text((SystemClock().now() - moment).total_seconds())} ago"


def _path(settings_file: Path | None, state_directory: Path | None) -> Path:
    if settings_file is not None and state_directory is not None:
        raise click.UsageError("Give --settings or --state-directory, not both.")
    if settings_file is not None:
        return tokens_path(settings_module.load(settings_file, settings_module.DaemonSettings))
    if state_directory is not None:
        return tokens_path(settings_module.DaemonSettings(state_directory=str(state_directory)))
    return tokens_path(settings_module.DaemonSettings())
