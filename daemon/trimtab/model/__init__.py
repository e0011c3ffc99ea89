"""The words of the system: frozen dataclasses and arithmetic, shared by all stages."""
