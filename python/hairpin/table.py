"""Tables from records: which fields of the JSON become which columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]


class Table(NamedTuple):
    """Names of columns, and rows that have all of them; an unknown value is None."""

    columns: tuple[str, ...]
    rows: list[Json]


def table(columns: str, scopes: Iterable[Json]) -> Table:
    """A row for each scope. `columns` lists NAME, or NAME=PATH with the path through objects, as in `rtt_p50_ns=rtt_ns/p50`."""
    paths = {name: path or name for name, _, path in (column.partition("=") for column in columns.split())}
    return Table(tuple(paths), [{name: at(scope, path) for name, path in paths.items()} for scope in scopes])


def at(scope: Any, path: str) -> Any:
    """What stands at a path through objects; None where nothing does."""
    for name in path.split("/"):
        scope = scope.get(name) if isinstance(scope, dict) else None
    return scope


def each(record: Json, name: str) -> list[Json]:
    """A list of objects that every record of this kind has. Raises ValueError where it is missing or something else."""
    found = record.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f'its field "{name}" is not a list of objects')
    return found


def some(scope: Any, path: str) -> Iterator[Json]:
    """The objects of a list that may be missing."""
    found = at(scope, path)
    return (item for item in found if isinstance(item, dict)) if isinstance(found, list) else iter(())


def words(scope: Any, path: str, within: str = "") -> str:
    """The texts of a list in one: of each item itself, or of its field `within`."""
    found = at(scope, path)
    texts = [at(item, within) if within else item for item in (found if isinstance(found, list) else [])]
    return " ".join(str(text) for text in texts if text is not None)


def number(value: Any) -> float | None:
    """A number, or None for all else."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
