"""The four kinds of patch, applied to copies; what does not fit raises Unfit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Path = tuple[str, ...]

LIST_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "admissionChecks": "name",
    "ownerReferences": "uid",
    "addresses": "type",
}
"""Lists that strategic merge and apply merge by a key; every other list is replaced as one (`taints`, too)."""


class Unfit(Exception):
    """The patch does not fit the object: a failed test, a path that is not there."""


def copied(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, *, name: str = "") -> Any:
    """Strategic merge and apply, as far as lists of LIST_KEYS go."""
    if isinstance(patch, dict):
        if patch.get("$patch") == "replace":
            return {key: copied(value) for key, value in patch.items() if key != "$patch"}
        result = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = strategic(result.get(key), value, name=key)
        return result
    if isinstance(patch, list) and name in LIST_KEYS and patch and isinstance(patch[0], dict):
        return _merged_list(list(target or []), patch, LIST_KEYS[name])
    return copied(patch)


def _merged_list(target: list[Json], patch: list[Json], key: str) -> list[Json]:
    for one in patch:
        at = next((i for i, old in enumerate(target) if old.get(key) == one.get(key)), None)
        if one.get("$patch") == "delete":
            target = [old for i, old in enumerate(target) if i != at]
        elif at is None:
            target.append(copied(one))
        else:
            target[at] = strategic(target[at], one)
    return target


def json_patched(target: Any, operations: list[Json]) -> Any:
    """RFC 6902: all or nothing."""
    result = copied(target)
    for operation in operations:
        result = _operate(result, operation)
    return result


def _operate(document: Any, operation: Json) -> Any:
    verb, path = operation["op"], _pointer(operation["path"])
    if verb == "test":
        if _find(document, path) != operation.get("value"):
            raise Unfit(f"test of {operation['path']} failed")
        return document
    if not path:
        return copied(operation["value"])
    parent, last = _find(document, path[:-1]), path[-1]
    if verb in ("remove", "replace"):
        _find(document, path)
    if isinstance(parent, list):
        _change_list(parent, verb, last, operation)
    elif isinstance(parent, dict):
        if verb == "remove":
            del parent[last]
        else:
            parent[last] = copied(operation["value"])
    else:
        raise Unfit(f"{operation['path']} is in no object")
    return document


def _change_list(parent: list[Any], verb: str, last: str, operation: Json) -> None:
    if verb == "add":
        at = len(parent) if last == "-" else int(last)
        if at > len(parent):
            raise Unfit(f"{operation['path']} is past the end")
        parent.insert(at, copied(operation["value"]))
    elif verb == "remove":
        parent.pop(int(last))
    else:
        parent[int(last)] = copied(operation["value"])


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise Unfit(f"no {'/'.join(path)}") from None
    return document


def leaves(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Paths of all values of an object; lists are one value."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, (*at, key))
    else:
        yield at, value


def changed_paths(old: Json, new: Json) -> tuple[set[Path], set[Path]]:
    """Paths whose value is new or other, and paths that are gone."""
    before, after = dict(leaves(old)), dict(leaves(new))
    return {p for p, value in after.items() if p not in before or before[p] != value}, before.keys() - after.keys()


def managed_fields(owners: dict[Path, str], api_version: str, at: str) -> list[Json]:
    """`metadata.managedFields` as a server writes it, one entry a manager."""
    trees: dict[str, Json] = {}
    for path, manager in sorted(owners.items()):
        tree = trees.setdefault(manager, {})
        for part in path:
            tree = tree.setdefault(f"f:{part}", {})
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": api_version,
            "time": at,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        for manager, tree in trees.items()
    ]
