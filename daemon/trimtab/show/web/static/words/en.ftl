# The words of trimtab for people: the page and on-call messages. Every key stands here; other languages follow it.
# Names that people type (cordon, drain, XID, GPU, node names, commands) stay as they are in every language.

## Kinds of findings (rule-<rule>)
rule-device_fault = GPU fault
rule-node_silent = node silent
rule-gpus_missing = GPUs missing
rule-hotspot = hotspot
rule-straggler = straggler
rule-hung_job = hung job
rule-idle_gpu = held but idle
rule-fragmentation = fragmentation
rule-contradiction = contradiction
rule-clock_skew = clock off
rule-blind = not seen

## Severities
severity-critical = critical
severity-warning = warning
severity-info = notice

## Actions (action-<action>)
action-none = nothing to do
action-unknown = not enough data to say
action-watch = watch
action-alert_owner = tell the owner
action-config_problem = correct the configuration
action-reset_after_drain = drain, then reset the GPU
action-cordon_reset = cordon, then reset the GPU
action-cordon_reboot = cordon, then reboot the node
action-hardware_rma = take it out of service, send it in (RMA)

## On-call messages: marks before the first line, links below the text (oncall-<what>)
oncall-mark-drill = [drill]
oncall-mark-repeat = [may be a repeat]
oncall-open = Open in trimtab
oncall-runbook = Runbook
oncall-acknowledge = Acknowledge
oncall-mail-reason = You get this because trimtab's settings name you at the target { $target }. Incident { $incident }.

## On-call messages: what is said (oncall-<what>)
oncall-hits = Hits: { $impact }
oncall-since = Since { $at }.
oncall-was-quiet = It has stood for { $age } already and nobody was paged: a silence or maintenance window was on.
oncall-do = To do: { $what }
oncall-seen = Seen by { $source }: { $text }
oncall-against = Against it: { $text }
oncall-would = Would be done: { $what }
oncall-would-nothing = Would be done: nothing that trimtab could write.
oncall-drill = This is a drill. Nothing is broken, nothing is taken out of service.
oncall-for-owner = You get this because the work that it hits is yours.
oncall-command-proposed = Proposed { $name }: { $what }. It waits for a yes.
oncall-command-approved = { $name } approved by { $who }: { $what }.
oncall-command-held = { $name } under way: { $what }.
oncall-command-confirmed = { $name } under way: { $what }.
oncall-command-submitted = { $name } under way: { $what }.
oncall-command-settled = Done, { $name }: { $what }.
oncall-command-abandoned = { $name } did not settle and was given up: { $what }.
oncall-command-missed = { $name } came too late, somebody else took the seat: { $what }.
oncall-command-undone = { $name } was undone: { $what }.
oncall-command-refused = { $name } was refused: { $what }.
oncall-command-rejected = { $name } was rejected: { $what }.
oncall-command-other = { $name } is { $state }: { $what }.
oncall-acted-command = { $who } approved { $name }: { $what }.
oncall-acknowledged = { $who } has it, since { $at }.
oncall-lasted = It lasted { $span }, from { $at }.
oncall-cost = It cost about { $hours } GPU-hours.
oncall-ended = Why it is over: { $why }.
oncall-nobody-acted = Nobody acknowledged it.
oncall-summary = { $count ->
    [one] one more incident that is less than critical ({ $named })
   *[other] { $count } more incidents, all less than critical ({ $named } …)
  }; too many to be told one by one
oncall-summary-over = all incidents that were told in sum are over
oncall-change-worse = It got worse.
oncall-change-better = It got better, and is not over.
oncall-change-victims = It hits more work than before.
oncall-change-action = What to do about it has changed.
oncall-change-command = What is done about it has changed.
oncall-change-summary = The number has changed.
oncall-prefix-over = over after { $span }:
oncall-prefix-acknowledged = { $who } has it:
oncall-prefix-worse = worse:
oncall-prefix-better = better:
oncall-prefix-victims = hits more:
oncall-prefix-owner = your work:
oncall-span-s = { $count } s
oncall-span-min = { $count } min
oncall-span-h = { $count } h
oncall-span-d = { $count } d
oncall-reopened = now part of another incident

## Signing in (sign-in-<what>), roles (role-<role>)
role-viewer = viewer
role-operator = operator
role-admin = admin
sign-in-title = Sign in to trimtab
sign-in-token = Your token
sign-in-button = sign in
sign-in-help = An admin gives tokens: trimtab token person NAME --role operator. A link that works once: trimtab link.
sign-in-nobody = not signed in
sign-in-out = sign out
sign-in-over = Your session is over. What is shown may be old.
