"""The verb `demo`: parses and calls."""

from __future__ import annotations

import click


@click.command()
@click.option("--speed", default=20.0, show_default=True, type=click.FloatRange(1, 200), help="Simulated s per second.")
@click.option("--nodes", default=24, show_default=True, type=click.IntRange(8, 512), help="Nodes of 8 GPUs each.")
@click.option("--seed", default=0, show_default=True, help="Another seed, another cluster.")
@click.option("--database", metavar="URL", help="PostgreSQL in place of SQLite: postgresql://user@host/name.")
@click.option("--auto-approve", is_flag=True, help="Approve each recommendation as soon as it is proposed.")
@click.option(
    "--for", "for_seconds", type=click.FloatRange(min=1), metavar="SECONDS", help="Then a summary and exit 0."
)
@click.option("--json", "is_json", is_flag=True, help="The summary as one JSON object; the story goes to stderr.")
@click.option("--port", type=click.IntRange(1, 65535), help="Where the page is  [default: 9740, else any free one]")
@click.option("--keep", is_flag=True, help="Keep the scratch folder (database, logs, spools).")
@click.option("--no-servers", is_flag=True, help="Leave Prometheus and Alertmanager out, though they are installed.")
@click.option("--kill-daemon", default=0, hidden=True, help="kill -9 the daemon so often at random within --for.")
def demo(
    *,
    speed: float,
    nodes: int,
    seed: int,
    database: str | None,
    auto_approve: bool,
    for_seconds: float | None,
    is_json: bool,
    port: int | None,
    keep: bool,
    no_servers: bool,
    kill_daemon: int,
) -> None:
    """Show a simulated cluster of 192 GPUs: agents, daemon and page, and three things that go wrong.

    A GPU falls off the bus under a 32-GPU job, a fan failure slows another, and free GPUs lie so scattered that a
    waiting job cannot start. Approve what is recommended (on the page, or `trimtab approve R1` in another terminal)
    and watch it mend. Without --for it runs until Ctrl-C.

    What on-call would get is printed as it arrives. Where Prometheus and Alertmanager are installed, both run beside
    the daemon with the rules that come with trimtab, on ports and folders of their own.

    \b
    Examples: trimtab demo
              trimtab demo --for 90 --auto-approve --json
              trimtab demo --nodes 64 --speed 60
    """
    from trimtab import logs  # noqa: PLC0415 - loaded only for this verb
    from trimtab.demo.ground import Options  # noqa: PLC0415
    from trimtab.demo.supervisor import run, to_json  # noqa: PLC0415
    from trimtab.service import Service  # noqa: PLC0415

    options = Options(
        speed=speed,
        nodes=nodes,
        seed=seed,
        database=database,
        is_auto_approved=auto_approve,
        for_seconds=for_seconds,
        is_json=is_json,
        port=port,
        is_kept=keep,
        has_servers=not no_servers,
        kill_daemon=kill_daemon,
    )
    logs.setup(level="error")  # the agents' own lines would hide the story; the daemon's are in its log
    service = Service()
    service.catch_signals()
    result = run(options, say=lambda line: click.echo(line, err=is_json), service=service)
    if is_json:
        click.echo(to_json(result))
