"""trimtab itself: whether the daemon and its agents are well."""

from __future__ import annotations

from dashboards.panels import GREEN, ORANGE, RED, TO_NODE, Ask, bars, lines, number, rows
from dashboards.queries import INSTANCE, agents, agents_rate, own, own_rate
from dashboards.sheet import Row, Sheet

STANDS = Row(
    title="How it stands",
    panels=(
        number(
            "Version",
            "Of each daemon that is scraped.",
            "none",
            Ask(own("build_info"), "{{version}}"),
            is_name_only=True,
        ),
        number(
            "Up for",
            "Time since the daemon started.",
            "s",
            Ask(f"time() - {own('daemon_start_timestamp_seconds')}", "{{instance}}"),
            decimals=0,
        ),
        number(
            "Latest beat",
            "The beat that ended longest ago; each is due every few seconds.",
            "s",
            Ask(f"max({own('beat_age_seconds')})"),
            decimals=0,
            steps=((None, GREEN), (60.0, ORANGE), (300.0, RED)),
        ),
        number(
            "Snapshot",
            "Age of the last whole snapshot of the cluster: without one nothing is moved.",
            "s",
            Ask(f"max({own('snapshot_age_seconds')})"),
            decimals=0,
            steps=((None, GREEN), (60.0, ORANGE), (300.0, RED)),
        ),
        number(
            "Waiting for commit",
            "Reports received and not yet on disk: acknowledged only after.",
            "none",
            Ask(f"sum({own('inbox_reports')})"),
        ),
        number(
            "Memory",
            "Resident memory of the daemon.",
            "bytes",
            Ask(f"max(process_resident_memory_bytes{{{INSTANCE}}} and on (instance) {own('beats_total')})"),
        ),
    ),
)

BEATS = Row(
    title="Beats",
    panels=(
        lines(
            "How long a beat takes",
            "Beside how often it is due: a beat that takes longer is dropped and counted, never queued up.",
            "s",
            Ask(own("beat_duration_seconds"), "{{beat}} takes"),
            Ask(own("beat_interval_seconds"), "{{beat}} is due every"),
        ),
        lines(
            "Beats that failed or were dropped",
            "A second; a failed beat says why in its sentence, which `trimtab doctor` shows.",
            "none",
            Ask(own_rate("beat_failures_total"), "{{beat}} failed"),
            Ask(own_rate("beats_dropped_total"), "{{beat}} dropped"),
        ),
        lines(
            "How long each detector takes",
            "At the last beat; one that grows with the fleet is the next to look at.",
            "s",
            Ask(own("detector_seconds"), "{{detector}}"),
        ),
        lines(
            "CPU of the daemon",
            "Cores in use; one daemon on two cores carries 100,000 GPUs.",
            "none",
            Ask(
                f"rate(process_cpu_seconds_total{{{INSTANCE}}}[$__rate_interval]) "
                f"and on (instance) {own('beats_total')}",
                "{{instance}}",
            ),
            decimals=2,
        ),
    ),
)

INGEST = Row(
    title="Reports",
    panels=(
        lines(
            "Reports",
            "A second, received and stored: the two lines part when agents send again what was stored before.",
            "none",
            Ask(own_rate("reports_received_total"), "received"),
            Ask(own_rate("reports_stored_total"), "stored"),
            Ask(own_rate("reports_duplicate_total"), "seen before"),
            Ask(own_rate("reports_replayed_total"), "from a backlog"),
        ),
        lines(
            "What the inbox did",
            "Reports a second by outcome; turned away means that agents keep theirs and come again.",
            "none",
            Ask(own_rate("inbox_total"), "{{outcome}}"),
        ),
        lines(
            "Bytes received",
            "Bodies of agents as they came, compressed.",
            "Bps",
            Ask(own_rate("ingest_body_bytes_total"), "{{instance}}"),
        ),
        lines(
            "The ring",
            "GPUs that are judged from memory, and those that found no room there: they are stored and not judged.",
            "none",
            Ask(own("ring_gpus"), "GPUs in it"),
            Ask(own("ring_gpus_dropped_total"), "without room"),
        ),
    ),
)

SEEN = Row(
    title="What it sees of the cluster",
    panels=(
        lines(
            "Age of the snapshot and of the board",
            "What it decides on, and what people see; both should stay within a few beats.",
            "s",
            Ask(own("snapshot_age_seconds"), "snapshot"),
            Ask(own("board_age_seconds"), "board"),
        ),
        lines(
            "Reads that failed",
            "Times that the scheduler could not be read: no snapshot came of it, and so no move.",
            "none",
            Ask(own_rate("scheduler_failures_total"), "{{instance}}"),
        ),
        lines(
            "Changes of commands",
            "A second, by state reached.",
            "none",
            Ask(f"sum by (state) ({own_rate('command_changes_total')})", "{{state}}"),
        ),
        bars(
            "Not seen",
            "Silent racks or nodes, a scheduler that cannot be read: the page names each in a sentence.",
            "none",
            Ask(own("blind_spots"), "{{cluster}}"),
            steps=((None, GREEN), (1.0, RED)),
        ),
    ),
)

CLUSTER_API = Row(
    title="The cluster's API (Kubernetes only)",
    panels=(
        lines(
            "Writes",
            "A second, by what became of them.",
            "none",
            Ask(f"sum by (what, result) ({own_rate('scheduler_writes_total')})", "{{what}} {{result}}"),
        ),
        lines(
            "Lease",
            "1 while this daemon may write; exactly one of a pair should.",
            "none",
            Ask(own("lease_held"), "{{instance}}"),
            maximum=1.0,
        ),
        lines(
            "Watches and lists",
            "Tries a second by kind: many mean that watches break.",
            "none",
            Ask(own_rate("reader_attempts_total"), "{{kind}} tries"),
            Ask(own_rate("reader_missed_changes_total"), "{{kind}} changes missed"),
        ),
        lines(
            "Errors of watches and lists",
            "A second, by kind and error.",
            "none",
            Ask(own_rate("reader_errors_total"), "{{kind}} {{error}}"),
        ),
    ),
)

AGENTS = Row(
    title="Agents",
    panels=(
        bars(
            "Slowest ticks",
            "The ten agents whose last tick took longest; the beat is ten seconds.",
            "s",
            Ask(f"topk(10, {agents('tick_seconds')})", "{{node}}"),
            links=TO_NODE,
            steps=((None, GREEN), (1.0, ORANGE), (5.0, RED)),
        ),
        bars(
            "Fullest spools",
            "The ten agents with the most reports that the daemon has not acknowledged.",
            "none",
            Ask(f"topk(10, {agents('spool_reports')})", "{{node}}"),
            links=TO_NODE,
            steps=((None, GREEN), (10.0, ORANGE), (100.0, RED)),
        ),
        lines(
            "Sending that failed",
            "Times a second that a report could not be delivered and stayed on the agent's disk.",
            "none",
            Ask(f"topk(10, {agents_rate('send_failures_total')})", "{{node}}"),
            links=TO_NODE,
        ),
        lines(
            "Collectors",
            "How long each collector took at the last tick, at most over all agents.",
            "s",
            Ask(f"max by (collector) ({agents('collector_seconds', by='cluster, node, collector')})", "{{collector}}"),
        ),
        rows(
            "Agents",
            "Every agent that is scraped: ticks dropped, reports lost, values left out. All should be 0 or small.",
            Ask(agents("ticks_dropped_total")),
            Ask(agents("spool_dropped_total")),
            Ask(agents("spool_lost_total")),
            Ask(agents("bad_samples_total")),
            names={
                "node": "Node",
                "Value #A": "Ticks dropped",
                "Value #B": "Reports dropped",
                "Value #C": "Reports lost",
                "Value #D": "Values left out",
                "cluster": "Cluster",
            },
            goes_to={"Node": "/d/trimtab-node?var-node=${__data.fields.Node}&${__url_time_range}"},
        ),
    ),
)

ON_CALL = Row(
    title="On-call, and the past",
    panels=(
        lines(
            "Messages by state",
            "What the outbox has for each target: ready ones wait, dead ones were given up and say why on the page.",
            "none",
            Ask(f"sum by (target, state) ({own('outbox_messages')})", "{{target}} {{state}}"),
        ),
        lines(
            "Oldest message that waits",
            "How long a target has not taken what it was sent; no line where nothing waits.",
            "s",
            Ask(own("outbox_oldest_waiting_seconds"), "{{target}}"),
            steps=((None, GREEN), (60.0, ORANGE), (600.0, RED)),
        ),
        lines(
            "Alertmanagers that do not take our alerts",
            "1 while a peer refuses or cannot be reached.",
            "none",
            Ask(own("alertmanager_failing"), "{{peer}}"),
            maximum=1.0,
        ),
        lines(
            "Kept from paging",
            "Incidents that a silence or a maintenance window keeps quiet: they are shown, and nobody is woken.",
            "none",
            Ask(own("quiet_incidents"), "incidents"),
            Ask(own("silences"), "silences"),
        ),
        number(
            "Who pages",
            "The outbox, Alertmanager, or nobody; never two.",
            "none",
            Ask(f"{own('pager')} == 1", "{{pager}}"),
            is_name_only=True,
            width=6,
            height=6,
        ),
        lines(
            "How far the roll-ups are behind",
            "The newest minute that is rolled up lies so far back; about 90 s at rest.",
            "s",
            Ask(own("rollup_lag_seconds"), "{{instance}}"),
            width=18,
            height=6,
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-daemon",
    title="trimtab: trimtab itself",
    text="Whether the daemon and its agents are well: beats, reports, what it sees of the cluster, memory and CPU.",
    rows=(STANDS, BEATS, INGEST, SEEN, ON_CALL, CLUSTER_API, AGENTS),
    variables=("instance", "cluster", "node"),
)
