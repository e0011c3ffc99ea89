"""A cluster that isn't there: GPUs with physics and faults, jobs, and a scheduler behind HTTP."""
