"""Alertmanager, both ways: alerts that we push, silences that we read, other people's alerts that it brings."""
