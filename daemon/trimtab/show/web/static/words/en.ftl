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
rule-summary = several at once

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
oncall-acknowledged = { $who } has it, since { $at }.
oncall-lasted = It lasted { $span }, from { $at }.
oncall-cost = It cost about { $hours } GPU-hours.
oncall-ended = Why it is over: { $why }.
oncall-nobody-acted = Nobody acknowledged it.
oncall-summary = { $count ->
    [one] one more incident that is less than critical ({ $named })
   *[other] { $count } more incidents, all less than critical ({ $named } …)
  }; too many to be told one by one
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

## Signing in (sign-in-<what>), roles (role-<role>)
role-viewer = viewer
role-operator = operator
role-admin = admin
sign-in-title = Sign in to trimtab
sign-in-token = Your token
sign-in-button = sign in
sign-in-help = An admin gives tokens: trimtab token person NAME --role operator. A link that works once: trimtab link.
sign-in-out = sign out
sign-in-over = Your session is over. What is shown may be old.

## The page: ages and numbers
age-seconds = { $n } s
age-minutes = { $n } min
age-hours = { $n } h
age-days = { $n } d
age-ago = { $age } ago
at-ago = { $at }, { $age } ago
gpu-hours = { $n } GPU-h
gain-a-day = { $gain }/day
gain-in-hours = { $gain } in { $hours } h
not-known = not known
count-gpus = { $count ->
    [one] { $n } GPU
   *[other] { $n } GPUs
  }
count-nodes = { $count ->
    [one] { $n } node
   *[other] { $n } nodes
  }
count-racks = { $count ->
    [one] { $n } rack
   *[other] { $n } racks
  }
count-jobs = { $count ->
    [one] { $n } job
   *[other] { $n } jobs
  }
count-pods = { $count ->
    [one] { $n } pod
   *[other] { $n } pods
  }
count-steps = { $count ->
    [one] { $n } step
   *[other] { $n } steps
  }
count-things = { $count ->
    [one] { $n } thing
   *[other] { $n } things
  }
size-pods = { $pods } × { $gpus } GPUs
and-more = and { $n } more
and-more-by = and { $n } more: { $command }
the-cluster = the cluster
asking = Asking the daemon for it.

## The page: metrics
metric-sm_active_ratio = SM activity
metric-graphics_engine_active_ratio = engine activity
metric-utilization_ratio = utilisation
metric-temperature_celsius = temperature
metric-memory_temperature_celsius = memory temperature
metric-power_watts = power
metric-sm_clock_hertz = SM clock
metric-memory_used_bytes = memory used
metric-tensor_active_ratio = tensor activity
metric-dram_active_ratio = memory bandwidth used
metric-up = answers
measure-activity = SM activity
measure-temperature = temperature
measure-power = power
measure-clock = SM clock
measure-memory = memory used
measure-findings = findings

## The page: states of a GPU (cell-<state>)
cell-working = working
cell-held_idle = held but idle
cell-free = free
cell-stranded = free, but stranded
cell-spare = spare
cell-lost = lost
cell-unusable = out of service
cell-silent = silent: no fresh report
cell-unknown = not known
cordoned = cordoned
cordoned-by = cordoned by { $who }

## The page: head and line
skip-to-todo = Skip to what to do
mode = mode
mode-observe = observe
mode-recommend = recommend
mode-approve = approve
mode-act = act
mode-observe-means = Watches and says what is wrong; recommends nothing.
mode-recommend-means = Recommends; nothing is carried out, so nothing can be approved.
mode-approve-means = Carries out what a person approves.
mode-act-means = Carries out what its settings allow by itself; the rest when a person approves.
language = Language
person-signed-out = signed out
beat-age = beat { $age } ago
beat-past = as of { $at }
clock-simulated = simulated clock × { $speed }
clock-simulated-means = A simulated cluster: there it is { $at }, and its clock runs { $speed } times as fast as yours.
line-first-board = Asking the daemon for its first board.
line-signed-out = You are signed out; what is shown is old. Sign in, or make a new link on the daemon's host:
line-silent = No word from the daemon for { $age }. What is shown is of { $at }; trying again.
line-status = The daemon answered { $status }.
line-unreachable = The daemon cannot be reached; nothing was sent. Try again when the beat is back.
pause = pause
resume = resume
pause-why = Start nothing new. Why?
paused-plain = Paused: nothing new is started.
paused-means = What has begun is finished or undone.
standby-why = Nothing is written from here: { $why }
stopped = Stopped:
let-go-on = let { $rule } go on
release-done = Everything of ours is given back ({ $things }, asked for by { $who }).
release-going = Giving everything back for { $who } since { $at }: { $back } given back, { $left } left
vetoes = Opened by somebody, so left alone
veto-lift = may be cordoned again
foreign = Of other daemons, left alone
alerts-others = What others say
notes = Not read in the cluster
quiet-silence = Silence:
quiet-maintenance = Maintenance:
quiet-words = { $about } pages nobody until { $until } ({ $who }: { $why })
quiet-keeps = Kept quiet by it: { $findings }
quiet-tag-silence = silenced
quiet-tag-maintenance = in maintenance
quiet-tag-other = pages nobody

dead-letters = { $count ->
    [one] One message to { $target } could not be delivered.
   *[other] { $n } messages to { $target } could not be delivered.
  }

## The page: search
search-hint = node, GPU, job, UUID … ( / )
search-label = Search node, GPU, job or UUID
search-found = What was found
search-nothing = Nothing here has that in its name.
search-node = node
search-job = job, { $state }
search-queue = queue
search-pod = job of this pod
search-finding = finding
search-recommendation = recommendation

## The page: the strip
strip-label = The cluster in numbers
strip-working = GPUs working
strip-idle = held but idle
strip-idle-none = nobody holds what it does not use
strip-stranded = stranded for k =
strip-size = GPUs together
strip-out = out of service
strip-goodput = goodput
strip-of-share = of { $total } · { $share }
strip-of-free = of { $n } free
strip-beside-spare = , beside { $n } spare
strip-not-known = { $n } not known
strip-none = none
strip-nothing-held = nothing is held
strip-of-held = of the GPUs that are held
strip-change = { $change } since { $at }

## The page: the fleet
fleet-title = Fleet by
fleet-colour = Colour by
fleet-group = Group by
fleet-order = Order
fleet-group-rack = grouped by rack
fleet-group-queue = grouped by queue
fleet-group-job = grouped by job
fleet-group-model = grouped by model
fleet-group-none = all together
fleet-order-name = by name
fleet-order-free = most free GPUs first
fleet-highlighted = highlighted: { $job } ({ $gpus }, { $nodes }, { $racks })
fleet-picture = Fleet picture
fleet-picture-kind = fleet picture
fleet-keys = Arrow keys go from cell to cell, Enter opens one. Plus and minus zoom, zero shows the whole, Shift with arrows moves the view. The same as a table stands below.
fleet-zoom-in = zoom in
fleet-zoom-out = zoom out
fleet-zoom-hint = Ctrl + wheel, double click or + zooms; drag moves
fleet-whole = whole
fleet-metric-now-only = Of the past, only the board's own numbers are kept by GPU.
fleet-table = The same as a table
fleet-table-all = all
fleet-table-back = back to all
fleet-table-gpus = GPUs
fleet-table-node = node
fleet-table-findings = findings
group-rack = rack { $name }
group-nobody = held by nobody
group-no-queue = no queue
group-model-unknown = model not known
tip-held-by = {" "}· { $job }
tip-stranded-for = {" "}for { $job }
tip-mean = { $what } { $value } on average
legend-stranded-for = stranded for { $jobs }
legend-no-finding = nothing wrong
legend-waits = { $n } wait

## The page: what to do, what is wrong, who waits
todo-title = What to do
todo-why = why
todo-why-label = why { $name }
todo-now = now
todo-over = Over in the last hour: { $n }
todo-observe = Nothing is recommended in mode observe.
todo-nothing = Nothing to do.
todo-nothing-better = Nothing to do: no move would be better than waiting.
todo-refusals = Not done, and why: { $n }
not-before = not before { $at }
gain = gain
cost = cost
steps-done = { $done } of { $steps } done
wrong-title = What is wrong
wrong-mark-seen = mark { $n } as seen
wrong-closed = Closed in the last hour: { $n }
wrong-nothing = Nothing is wrong.
wrong-nothing-seen = Nothing is wrong with what is seen.
wrong-last = Last finding { $age } ago.
wrong-report = { $reporting } of { $total } GPUs report.
waits-title = Who waits, and why
waits-job = job
waits-size = size
waits-for = waits
waits-why = why
waits-do = recommended
waits-state = state
waits-priority = priority
waits-queue = queue
waits-queues = Queues, GPUs held of quota:
waits-nobody = Nobody waits; { $jobs } running.

## The page: decisions
approve = approve
approve-label = approve { $name }
sending = sending…
cancel = cancel
close = close
close-view = close this view
copy = copy
reject-open = reject…
reject-name = reject { $name }
reject-why = Why not?
reject-words = or in your words
reject-deadline = not now: the job has a deadline
reject-owner = its owner says no
reject-wrong = the finding is wrong
reject-cost = it costs too much
reject-hand = I do it by hand
later-open = later…
later-in = Ask again in
later-button = ask again then
undo-open = undo…
undo-name = undo { $name }
take-back-open = take back…
why-asked = Why?
command-proposed = proposed
command-approved = approved
command-held = held
command-confirmed = confirmed
command-submitted = moving
command-settled = settled
command-rejected = rejected
command-refused = refused
command-expired = expired
command-abandoned = abandoned
command-missed = missed
command-undone = undone
standing-proposed = proposed
standing-approved = approved by { $who }
standing-approved-waits = approved by { $who }, waits until { $at }
standing-expires = expires { $at }
standing-snoozed = asked again at { $at }
standing-undoing = being undone for { $who }
standing-held = held: room is kept, nothing moved yet
standing-confirmed = confirmed: still right, moving next
standing-submitted = moving
standing-settled = settled
standing-rejected = rejected
standing-refused = refused
standing-expired = expired
standing-abandoned = abandoned and given back
standing-missed = missed: its seats were taken
standing-undone = undone
snoozed-until = snoozed until { $at }

## The page: findings
finding = finding
findings = Findings
finding-new = new
finding-closed = closed
finding-closed-at = closed { $at }: { $why }
finding-closed-view = Closed at { $at }: { $why }
finding-gone = it no longer holds
finding-for = for
finding-since = { $age }, since { $at }
finding-action = to do
finding-loss = lost while open
finding-loss-words = { $loss } GPUs' worth of work, { $hit } GPUs hit
finding-where = where
finding-sure = sure
finding-sure-yes = yes: two signs, or one that is enough
finding-sure-no = not yet: nothing is moved on it
finding-rule = rule
finding-advice = Advice
finding-recommended = Recommended
rests-on = What it rests on
rests-on-sentence = Its sentence says all that is known.
rests-on-waiting = No finding: it rests on who waits, and on what is free.
against = What speaks against it
against-nothing = Nothing that is known.
against-threshold = against { $value }
against-cost = against a cost of
chart-of-gpu = { $metric } of { $where }
chart-of-node = { $metric } of { $where } and its GPUs
chart-limit = limit { $value }
chart-peers = the node's other GPUs
chart-no-library = The chart's library could not be loaded. Load the page again.
chart-asking = Asking for its history.
chart-empty = No { $metric } has been reported for it in this time.
chart-now = { $value } at { $at }
how-far-back = How far back
incident-acknowledge = I have it
incident-acknowledge-label = I have it: { $name }
incident-has-it = { $who } has it
incident-acknowledged = { $who } has it, for { $age }.
incident-told = On-call was told at { $at } ({ $pager }).
incident-not-told = On-call was not told.
incident-pager-outbox = by trimtab
incident-pager-alertmanager = by Alertmanager
incident-pager-none = nobody pages

## The page: a recommendation
recommendation = recommendation
before-after = Before → after
picture-before = before
picture-after = after
moves-nothing = It moves nothing: see the steps.
move-spoken = { $gpus } GPUs of { $job } from { $from } to { $to }
start-spoken = { $gpus } GPUs of { $job } start on { $to }
starts-on = starts on { $node }
gain-and-cost = Gain and cost
formula = formula
unlocked = { $gpus } unlocked
disturbed = { $pods } disturbed, restart { $age }
nobody-disturbed = nobody is disturbed
record = The rule's record
steps = Steps
step-waiting = waiting
step-doing = doing
step-done = done
step-given-back = given back
approval-exact = An approval is for exactly these writes: { $fingerprint }.
way-expected = Expected: { $age } until all of it runs again.
lines-to-copy = Lines to copy
owners = Its owners
owners-told = Told at { $at }.
owners-told-until = Told at { $at }; it begins at { $until } or later.
owner-asked = asked at { $at }, has until { $until } to answer
owner-yes = yes at { $at }
owner-no = no at { $at }
owner-not_before = later, said at { $at }
gates = Before it returns to service
if-nothing = If nothing is done
may-approve = Whoever is signed in here as operator may approve, or: trimtab approve { $name }
may-approve-not-you = An operator may approve it here, or by: trimtab approve { $name }
approved-by = Approved by { $who }.
may-advice = Nobody may approve it: this kind stays advice; carry it out by hand.
may-not-in-mode = Nothing can be approved in mode { $mode }: copy the steps, or set [issue] mode = "approve" in the daemon's settings.
may-expired = It has expired; it is made anew if it still holds.
may-not-now = It cannot be approved at this moment.
may-is = It is { $state }.
outcome = What came of it
outcome-good = As hoped.
outcome-bad = Not as hoped.
outcome-forecast = forecast
outcome-measured = as it came
outcome-runs = runs again after
outcome-gained = GPU-hours expected over the horizon, less the cost
outcome-lost = GPU-hours lost (measured)
outcome-seats = seats as planned
outcome-unlocked = GPUs unlocked

## The page: node, job, queue
node-unknown = No node is called { $node } now. It may have been let go.
node-gpus = GPUs of { $node }
node-no-gpu = No GPU of it is known.
node-history = History of the last
node-rack = rack { $rack }
node-rack-unknown = rack not known
node-not-ready = not ready for its scheduler
node-spare = kept as a spare
node-last-report = last report { $age } ago
node-no-report = no report yet
node-silent = It is silent: nothing is claimed about its GPUs.
node-state = state
node-held-by = held by
node-held-by-nobody = nobody
node-no-use-to = no use to
job-unknown = No job is called { $job } now. It may be over.
job-none = none
job-runs = Runs on { $gpus } of { $nodes } in { $racks }.
job-waiting = waiting
job-starting = starting
job-running = running
job-stopping = stopping
job-suspended = suspended
job-failed = failed
job-finished = finished
job-fact-state = state
job-fact-size = size
job-fact-queue = queue
job-fact-priority = priority
job-fact-checkpoint = last checkpoint
job-fact-lost = lost so far
job-fact-recommended = recommended
job-hit = What hits it
job-ranks = Ranks over time
job-nodes = Its nodes, in the order of ranks
job-elsewhere = Where else it could run
why-slow = Why it is slow, if it is
why-waits = Why it does not run
cause-scheduling = scheduling
cause-network = network
cause-hardware = hardware
cause-host = host
cause-code = its own code
cause-not-running = It does not run: there is nothing to read.
cause-network-unread = Not known: no sign of the network is judged yet.
cause-host-unread = Not known: CPU, memory and storage of the host are not read.
cause-blind = Not known: some of its nodes are silent.
cause-hardware-none = Ruled out: no GPU of it has an open fault, heat or a held clock.
cause-code-none = No sign: its GPUs are neither idle nor in a hang.
cause-code-other = No sign: what is seen is explained by the hardware.
cause-spread = It lies in { $racks }; { $fewest } would hold it.
cause-together = Ruled out: it runs, in { $racks }; fewer than { $fewest } would not hold it.
heat-metric = Colour by
heat-activity_ratio = SM activity
heat-sm_clock_hertz = SM clock
heat-power_watts = power
heat-temperature_celsius = temperature
heat-memory_used_bytes = memory used
heat-dram_active_ratio = memory bandwidth used
heat-nvlink_bytes_per_second = NVLink traffic
heat-pcie_bytes_per_second = PCIe traffic
heat-label = { $what } of { $rows } ranks over time. { $suspect }
heat-nobody = No rank stands out in { $what }.
heat-nothing = Nothing of its ranks was kept in this time.
heat-unknown = not known
heat-table = The same as a table
heat-col-rank = rank
heat-col-where = GPU
heat-col-mean = mean
heat-col-median = to the median
heat-to-median = × { $ratio } of the median
queue-name = queue { $queue }
queue-unknown = No queue is called { $queue } now.
queue-quota = { $used } of { $quota } GPUs of its quota are held
queue-no-quota = { $used } GPUs are held; its quota is not known
queue-asked = { $gpus } more are asked for
queue-cohort = It borrows within cohort { $cohort }
queue-held = { $who } keeps it from admitting anything
queue-waiting = Who waits
queue-running = Who runs
queue-nobody-waits = Nobody waits.
queue-nobody-runs = Nobody runs.
queue-jobs = jobs

## The page: the scrubber
scrubber-label = Time
scrubber-slider = Moment that is shown; Page Up and Page Down go from mark to mark, End to now
scrubber-span = How much time
scrubber-span-10800 = three hours
scrubber-span-86400 = a day
scrubber-span-604800 = a week
scrubber-now = now
scrubber-asking = Asking for the past.
scrubber-marks = { $findings } findings opened, { $commands } changes of commands
past-asking = Asking how it was at { $at }.
past-shown = This is the past: { $at }. Nothing here can be decided.
past-means = Each number is a mean over { $span }.
past-no-moment = { $at } in the address is no moment, so nothing is shown. Write it as ?at={ $example }.
past-finding-later = Whom it hits and what it rests on is as it was said later: of this moment only the sentence was kept.
past-back = back to now

## End of the page

## The digest (digest-<what>)
digest-title = { $cluster }: { $since } to { $until }
digest-first-line = { $cluster }: weekly digest to { $until }
digest-nothing = Nothing is kept of this time.
digest-lead = Of { $total } GPU-hours { $good } did work that counted; { $idle } were held and idle, { $stranded } stranded, { $lost } lost to faults and stragglers.
digest-hours = GPU-hours
digest-goodput = Goodput { $ratio }: { $good } of the { $held } GPU-hours that jobs held did work that counted.
digest-goodput-none = No goodput: no job held a GPU.
digest-total = all
digest-state-working = working
digest-state-held_idle = held but idle
digest-state-free = free
digest-state-stranded = stranded
digest-state-spare = spare
digest-state-out_of_service = out of service
digest-state-unknown = not seen
digest-causes = What took GPU-hours
digest-causes-about = GPU-hours by kind of finding: out of service, held but idle, or lost while working (ranks that wait for a slow one).
digest-causes-none = No finding took any GPU-hours.
digest-gains = What the moves should give
digest-gains-about = Expected over the horizon { $gained } GPU-hours, after { $cost } that they really cost.
digest-gains-none = No command ended in this time.
digest-not-missed = { $count } missed
digest-not-undone = { $count } undone
digest-not-refused = { $count } refused
digest-not-expired = { $count } expired
digest-prospects = What would pay next week
digest-prospects-about = If it goes on as it was. GPU-hours in a week.
digest-prospects-none = Nothing that stands is worth a GPU-hour a week.
digest-prospect-recommendation = { $subject }
digest-prospect-finding = { $subject }
digest-prospect-idle_queue = Queue { $subject } holds GPUs that are idle.
digest-prospect-stranded = Free GPUs of { $subject } that no waiting job can use.
digest-queues = Queues
digest-queues-none = No queue held a GPU.
digest-queues-more = { $count } smaller queues are not shown.
digest-no-queue = (no queue)
digest-incidents = Incidents
digest-incidents-none = No incident.
digest-incidents-about = { $opened } opened, { $closed } closed, { $still } still open.
digest-to-page = From the beginning to the page: { $span } (median).
digest-to-acknowledge = From the page to an acknowledgement: { $span } (median).
digest-to-mend = From the beginning to the end: { $span } (median).
digest-longest = Longest: { $line }, { $span }.
digest-offenders = What comes back
digest-offenders-about = Devices with at least two incidents. For each, below, what a vendor asks for.
digest-offenders-none = No device had a second incident.
digest-dossier = Dossier: { $node } { $gpu }
digest-whole-node = (the whole node)
digest-basis = What this rests on
digest-covered = Counted: { $since } to { $until }, its ends rounded to { $edge }.
digest-energy = The GPUs drew { $energy } kWh while their power was heard.
digest-left-out-nothing-kept = Nothing is kept of this time.
digest-left-out-begins-later = What is kept begins at { $at }; nothing before it is counted.
digest-left-out-drills = Not counted: { $count } drills.
digest-left-out-history-only = Not counted: { $count } findings that rest on reports which came too late to act on.
digest-left-out-dry-runs = Not counted: { $count } dry runs.
digest-made = Made at { $at }.
digest-column-state = state
digest-column-gpu-hours = GPU-hours
digest-column-share = of all
digest-column-cause = kind
digest-column-out = out of service
digest-column-idle = held but idle
digest-column-lost = lost
digest-column-sum = all
digest-column-rule = rule
digest-column-settled = done
digest-column-good = good
digest-column-not-done = not done
digest-column-gained = expected
digest-column-forecast = forecast
digest-column-cost = cost
digest-column-unlocked = GPUs unlocked
digest-column-name = name
digest-column-what = what
digest-column-gpu-hours-week = GPU-hours a week
digest-column-queue = queue
digest-column-held = held
digest-column-useful = did work
digest-column-incidents-opened = incidents
digest-column-node = node
digest-column-gpu = GPU
digest-column-to-do = to do
