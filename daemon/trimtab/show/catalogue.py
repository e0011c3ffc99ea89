"""The words for people, in each language that we speak: one Fluent file each, read here and by the page itself."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fluent.runtime import FluentBundle, FluentResource
from fluent.runtime.types import FluentNone, FluentType

LOCALES = ("en", "zh-CN")
"""The first is the language of every key; a key that another one lacks is said in it."""

Value = str | int | float | FluentType


class Catalogue:
    """What to say, in one language. An unknown locale speaks English. Raises KeyError for a key that nobody wrote."""

    def __init__(self, locale: str = "en") -> None:
        """Read the language's file, and English behind it."""
        self.locale = locale if locale in LOCALES else LOCALES[0]
        self._bundles = tuple(_bundle(one) for one in dict.fromkeys((self.locale, LOCALES[0])))

    def say(self, key: str, **args: Value) -> str:
        """The text of `key` with its arguments; one that is missing is shown as `{$name}`, never as an error."""
        for bundle in self._bundles:
            if bundle.has_message(key):
                pattern = bundle.get_message(key).value
                if pattern is not None:
                    text, _ = bundle.format_pattern(pattern, args)
                    return str(text) if not isinstance(text, FluentNone) else key
        raise KeyError(key)

    def knows(self, key: str) -> bool:
        """Whether any language that is spoken here has the key."""
        return any(bundle.has_message(key) for bundle in self._bundles)


def source(locale: str) -> str:
    """The Fluent text of a language, as the page gets it."""
    return (files("trimtab.show") / "web" / "static" / "words" / f"{locale}.ftl").read_text(encoding="utf-8")


@cache
def _bundle(locale: str) -> FluentBundle:
    # Isolation marks would stand between every name and its neighbours on a pager and in a terminal.
    bundle = FluentBundle([locale], use_isolating=False)
    bundle.add_resource(FluentResource(source(locale)))
    return bundle
