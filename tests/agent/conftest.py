"""Fixtures of the agent's tests."""

from tests.standin.driver import driver, old_driver

__all__ = ["driver", "old_driver"]
