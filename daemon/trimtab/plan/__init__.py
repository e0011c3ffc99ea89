"""Stage 5, plan: say what would be better. Pure: no clock, no I/O, no threads, no logging."""
