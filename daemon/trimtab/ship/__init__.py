"""Stage 2, ship: carry reports to the daemon and lose nothing silently."""
