"""Stage 4, detect: say what is wrong. Pure: no clock, no I/O, no threads, no logging."""
