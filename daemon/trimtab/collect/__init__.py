"""Stage 1, collect: read a node from inside, or its exporter from outside."""
