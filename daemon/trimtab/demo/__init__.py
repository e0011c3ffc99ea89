"""The demo: a cluster that isn't there, its agents, the real daemon beside it, and three stories."""
