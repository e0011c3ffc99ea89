"""The objects of one kind, decoded: filled by a list, changed by watch events, read whole by others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from trimtab.errors import NoData
from trimtab.schedulers.objects import ListMetadata, Loose, Metadata, NodeObject, Pod
from trimtab.schedulers.resources import Kind

Thing = NodeObject | Pod | Loose
Object = TypeVar("Object", NodeObject, Pod, Loose)
Told = TypeVar("Told")
CHANGES = ("ADDED", "MODIFIED", "DELETED")


class _Template(Struct, frozen=True, omit_defaults=True):
    metadata: dict[str, Any] = {}


class _SlimSpec(Struct, frozen=True, omit_defaults=True):
    """What is kept of the spec of a kind that matters by its metadata and its replicas alone."""

    replicas: int | None = None
    selector: dict[str, Any] | None = None
    template: _Template = _Template()


class _SlimObject(Struct, frozen=True, rename="camel"):
    metadata: Metadata = Metadata()
    spec: _SlimSpec = _SlimSpec()
    kind: str = ""
    api_version: str = ""


class Page(Struct, frozen=True):
    """A list's answer; its items are decoded one by one, so that one odd object does not hide the others."""

    metadata: ListMetadata = ListMetadata()
    items: list[msgspec.Raw] | None = None
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")


class _Event(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Told(Struct, Generic[Told], frozen=True):
    """The same where all is as it should be, decoded in one pass."""

    type: str
    object: Told


@dataclass(frozen=True, slots=True)
class Heard:
    """What a line of a watch was: its type and the version that it brings; `status` of an ERROR."""

    type: str
    version: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)


class Head(Struct, frozen=True):
    """An object as far as every one can be read."""

    metadata: Metadata = Metadata()


@dataclass(frozen=True, slots=True)
class Content(Generic[Object]):
    """All objects of a kind at one moment. `changes` counts up with every change."""

    objects: Mapping[str, Object]
    changes: int
    unreadable: tuple[str, ...] = ()
    """Keys of objects that are there and could not be decoded."""


class Shelf(Generic[Object]):
    """Written by one thread, read by any."""

    def __init__(self, kind: Kind, shape: type[Object]) -> None:
        """`shape` is what the objects are decoded to."""
        self.kind = kind
        self._shape: type[Any] = shape
        decoded: Any = _SlimObject if kind.is_slim else shape
        self._decoder = msgspec.json.Decoder(decoded)
        self._line = msgspec.json.Decoder(_Told[decoded])
        self._objects: dict[str, Object] = {}
        self._unreadable: dict[str, str] = {}
        self._changes = 0
        self._content: Content[Object] | None = None
        self._lock = threading.Lock()

    def content(self) -> Content[Object]:
        """What is there now; the same value again while nothing changes."""
        with self._lock:
            if self._content is None:
                self._content = Content(dict(self._objects), self._changes, tuple(sorted(self._unreadable)))
            return self._content

    def fill(self, pages: list[Page]) -> int:
        """Take a whole list in place of all; the number of objects that differ from before."""
        objects: dict[str, Object] = {}
        unreadable: dict[str, str] = {}
        for page in pages:
            named = (page.kind.removesuffix("List"), page.api_version)
            for raw in page.items or ():
                try:
                    one = self._decoded(raw, named)
                except NoData as error:
                    unreadable[_key_of(raw)] = str(error)
                else:
                    objects[one.metadata.key] = one
        with self._lock:
            differing = _differing(self._objects, objects)
            if differing or unreadable != self._unreadable:
                self._objects, self._unreadable = objects, unreadable
                self._changed()
        return differing

    def hear(self, line: bytes) -> Heard:
        """Take one line of a watch. DecodeError where it is no event at all."""
        try:
            told: Any = self._line.decode(line)
        except msgspec.ValidationError:
            return self._hear_slowly(line)
        if told.type == "ERROR":
            return self._hear_slowly(line)
        if told.type in CHANGES:
            self._put(told.type, self._named(told.object, ("", "")))
        return Heard(told.type, told.object.metadata.resource_version)

    def _hear_slowly(self, line: bytes) -> Heard:
        event = msgspec.json.decode(line, type=_Event)
        if event.type == "ERROR":
            return Heard("ERROR", status=msgspec.json.decode(event.object, type=dict[str, Any]))
        metadata = msgspec.json.decode(event.object, type=Head).metadata
        if event.type in CHANGES:
            try:
                self._put(event.type, self._decoded(event.object, ("", "")))
            except NoData as error:
                self._put_unreadable(event.type, metadata.key, str(error))
        return Heard(event.type, metadata.resource_version)

    def _put(self, how: str, one: Object) -> None:
        key = one.metadata.key
        with self._lock:
            self._unreadable.pop(key, None)
            if how == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = one
            self._changed()

    def _put_unreadable(self, how: str, key: str, why: str) -> None:
        with self._lock:
            self._objects.pop(key, None)
            self._unreadable.pop(key, None)
            if how != "DELETED":
                self._unreadable[key] = why
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._content = None

    def _decoded(self, raw: msgspec.Raw, named: tuple[str, str]) -> Object:
        try:
            found: Any = self._decoder.decode(raw)
        except msgspec.ValidationError:
            found = self._forgiving(raw)
        return self._named(found, named)

    def _named(self, found: Any, named: tuple[str, str]) -> Object:  # noqa: ANN401 - as it was decoded
        if isinstance(found, _SlimObject):
            spec = msgspec.to_builtins(found.spec)
            found = Loose(metadata=found.metadata, spec=spec, kind=found.kind, api_version=found.api_version)
        if isinstance(found, Loose) and not found.kind:
            # Items of a list of a built-in kind leave out what they are.
            found = msgspec.structs.replace(found, kind=named[0], api_version=named[1])
        return found  # type: ignore[no-any-return]  # the decoder's own type

    def _forgiving(self, raw: msgspec.Raw) -> object:
        # Custom kinds may carry nulls where the core leaves fields out: null is absent, as it is for the server.
        plain = _without_nulls(msgspec.json.decode(raw))
        try:
            return msgspec.convert(plain, _SlimObject if self.kind.is_slim else self._shape)
        except msgspec.ValidationError as error:
            raise NoData(str(error)) from error


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    gone = sum(1 for key in old if key not in new)
    return gone + sum(
        1
        for key, one in new.items()
        if key not in old or old[key].metadata.resource_version != one.metadata.resource_version
    )


def _key_of(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=Head).metadata.key
    except msgspec.ValidationError:
        return "an object without a name"


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
