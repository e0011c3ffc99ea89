"""`trimtab completion`: the script that a shell reads so that Tab completes verbs, options and names."""

from __future__ import annotations

import contextlib
import io

import click
from click.shell_completion import get_completion_class

from trimtab.cli.exits import help_text

VARIABLE = "_TRIMTAB_COMPLETE"
"""Set by the shell's script when it asks for words; click answers in place of the verb."""


@click.command(epilog=help_text("completion"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell: verbs and options, and names of nodes, findings and recommendations.

    Names are asked of the daemon, at most for a second; where it does not answer there are none.

    \b
    Examples: trimtab completion bash > ~/.local/share/bash-completion/completions/trimtab
              trimtab completion zsh > "${fpath[1]}/_trimtab"
              trimtab completion fish > ~/.config/fish/completions/trimtab.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # click knows these three
        raise click.UsageError(f"There is no completion for {shell}.")
    # click looks for an old bash and would warn into the script's reader's terminal; the script itself is the same.
    with contextlib.redirect_stderr(io.StringIO()):
        script = kind(context.find_root().command, {}, "trimtab", VARIABLE).source()
    click.echo(script)
