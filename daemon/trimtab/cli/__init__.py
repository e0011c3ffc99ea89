"""The command line: one module a verb group; parses and calls, no logic."""

from __future__ import annotations

import importlib
import os
import sys

import click

from trimtab import __version__

# Verb -> (module, attribute). A module is imported only when its verb runs: an agent's start stays light.
VERBS: dict[str, tuple[str, str]] = {
    "agent": ("trimtab.cli.run", "agent"),
    "daemon": ("trimtab.cli.run", "daemon"),
    "demo": ("trimtab.cli.demo", "demo"),
    "token": ("trimtab.cli.token", "token"),
    "enroll": ("trimtab.cli.enroll", "enroll"),
    "join": ("trimtab.cli.join", "join"),
    "ca": ("trimtab.cli.ca", "ca"),
    "inspect": ("trimtab.cli.inspect", "inspect"),
    "status": ("trimtab.cli.watch", "status"),
    "findings": ("trimtab.cli.watch", "findings"),
    "plan": ("trimtab.cli.watch", "plan"),
    "explain": ("trimtab.cli.watch", "explain"),
    "history": ("trimtab.cli.watch", "history"),
    "approve": ("trimtab.cli.decide", "approve"),
    "reject": ("trimtab.cli.decide", "reject"),
    "snooze": ("trimtab.cli.decide", "snooze"),
    "undo": ("trimtab.cli.decide", "undo"),
    "pause": ("trimtab.cli.decide", "pause"),
    "resume": ("trimtab.cli.decide", "resume"),
    "allow": ("trimtab.cli.decide", "allow"),
    "release": ("trimtab.cli.release", "release"),
    "link": ("trimtab.cli.decide", "link"),
    "incidents": ("trimtab.cli.oncall", "incidents"),
    "ack": ("trimtab.cli.oncall", "ack"),
    "outbox": ("trimtab.cli.oncall", "outbox"),
    "pager": ("trimtab.cli.oncall", "pager"),
    "drill": ("trimtab.cli.oncall", "drill"),
    "maintenance": ("trimtab.cli.maintenance", "maintenance"),
    "quiet": ("trimtab.cli.maintenance", "quiet"),
    "alerts": ("trimtab.cli.maintenance", "alerts"),
    "digest": ("trimtab.cli.digest", "digest"),
    "doctor": ("trimtab.cli.doctor", "doctor"),
    "settings": ("trimtab.cli.settings", "settings"),
    "db": ("trimtab.cli.db", "db"),
    "setup": ("trimtab.cli.setup", "setup"),
    "top": ("trimtab.cli.top", "top"),
    "login": ("trimtab.cli.login", "login"),
    "whoami": ("trimtab.cli.login", "whoami"),
    "completion": ("trimtab.cli.completion", "completion"),
}


class _Verbs(click.Group):
    """Verbs by name, each loaded when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb's click command, or None."""
        if cmd_name not in VERBS:
            return None
        module, attribute = VERBS[cmd_name]
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb; a misspelt one is answered with those that it may have meant."""
        import difflib  # noqa: PLC0415 - for a mistake alone

        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no verb {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; click and rich would make exit code 1 of a reader that hangs up."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.exit(_hung_up())


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trimtab")
def _root() -> None:
    """Watch a GPU cluster, say what is wrong and what it costs, and propose the smallest safe move.

    Start with `trimtab demo` (a simulated cluster, no GPU) or `trimtab inspect FILE` (a log or page you have at hand).
    """


def main() -> None:
    """Run the verb of sys.argv and end with its code (trimtab.cli.exits); an error that trimtab names is one line."""
    sys.exit(_run())


OTHER_USER = "Run it as root (sudo trimtab …), or as the user that the file belongs to."

CUT_OFF, HUNG_UP = 130, 141
"""As a shell has it for a program that SIGINT or SIGPIPE ended."""


def _run() -> int:
    from trimtab.errors import TrimtabError  # noqa: PLC0415 - kept light for --help

    try:
        code = _root.main(prog_name="trimtab", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:  # Ctrl-C, or a question that was answered with no
        click.echo("\nNothing was done.", err=True)
        return CUT_OFF
    except BrokenPipeError:
        return _hung_up()
    except TrimtabError as error:
        click.echo(f"trimtab: {error}", err=True)
        return 2
    except (PermissionError, ModuleNotFoundError) as error:
        said = _excuse(error)
        if not said:
            raise
        click.echo(f"trimtab: {said}", err=True)
        return 2
    return code if isinstance(code, int) else 0


def _excuse(error: PermissionError | ModuleNotFoundError) -> str:
    """What is so of the user or of what is installed, and no fault of the program; empty where it is one."""
    if isinstance(error, PermissionError):
        return f"{error.filename}: this user may not. {OTHER_USER}" if error.filename else ""
    if error.name is None or error.name.partition(".")[0] == "trimtab":
        return ""
    lacks = f"this needs {error.name}, which the agent's half does not bring"  # a node has that alone
    return f"{lacks}. Install trimtab-daemon, or: pip install 'trimtab[daemon]'"


def _hung_up() -> int:
    """`| head` has read enough: nobody is left to tell, also at the interpreter's own last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return HUNG_UP
