"""What every section of a settings file is made of: units in the name, ranges in the type, unknown keys refused."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a settings file. Its repr has keys and no values: some are secrets, or addresses with a password."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.__struct_fields__)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The same, where rich shows it (in a traceback with locals)."""
        return [(name, ...) for name in self.__struct_fields__]
