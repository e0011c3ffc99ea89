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
