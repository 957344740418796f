"""Reads records from files, from the run store, and through the command."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Union

from .errors import RecordError
from .record import Record, Records
from .rows import ROWS
from .table import Json

#: The most bytes that a file of records may hold, unpacked.
LARGEST = 256 << 20
#: Lines of `--json-stream` before the record.
_LINES = ("progress", "bounce-second")
_SPACE = re.compile(r"[ \t\r\n]*")
_SCHEMA = re.compile(r"hairpin\.([a-z0-9-]+)/([0-9]+)")
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]+")
#: A run by its id, the beginning of one, or its age.
_RUN = re.compile(r"(last|latest)([~-][0-9]+)?|-[0-9]+|[0-9][0-9a-f-]*")
_AGE = re.compile(r"(?:last|latest)(?:[~-]([0-9]+))?|-([0-9]+)")

Source = Union[str, "os.PathLike[str]", IO[bytes], IO[str]]


def load(source: Source) -> Record | Records:
    """Reads a record of Hairpin, or all of a file that holds several.

    `source` is a path or an open file with JSON, one record or several, packed with gzip or not; the folder of a run in the
    store; or, where the command `hairpin` is installed, a run as the command names it: its id, `latest`, `latest~1` or `-2`.

    Returns a Record, or Records if there are several. Raises RecordError if there is none, or not all of one.
    """
    run = None
    if not isinstance(source, (str, os.PathLike)):
        name, content = str(getattr(source, "name", "the open file")), source.read(LARGEST + 1)
        data = content.encode() if isinstance(content, str) else content
    else:
        name, path = os.fspath(source), Path(source)
        # Until Python 3.14 Path.is_dir and Path.exists raise what is no RecordError for a folder that is closed to this user.
        if os.path.isdir(path):
            run = path.resolve().name if _ID.fullmatch(path.resolve().name) else None
            path = path / "run.json"
        if isinstance(source, str) and not os.path.exists(path) and _RUN.fullmatch(source):
            run = source if _ID.fullmatch(source) else _id(source)
            data = _asked(run, "runs", "export", run, "--json")
        else:
            data = _content(name, path)
    found = list(_records(name, _text(name, data), run))
    return found[0] if len(found) == 1 else Records(found)


def _content(name: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise RecordError(f"{name}: {error.strerror or error}") from error


def _id(run: str) -> str:
    """The id of a run that is named by its age or the beginning of its id; without one, the name, which the command refuses."""
    listed = json.loads(_asked(run, "runs", "list", "--json"))
    ids = [str(each["id"]) for each in listed["runs"]]
    age = _AGE.fullmatch(run)
    if age is None:
        alike = [each for each in ids if each.startswith(run)]
        return alike[0] if len(alike) == 1 else run
    before = int(age[2]) - 1 if age[2] else int(age[1] or 0)
    return ids[-1 - before] if 0 <= before < len(ids) else run


def _asked(run: str, *arguments: str) -> bytes:
    """What the command prints, which is asked for a run."""
    command = shutil.which("hairpin", path=sysconfig.get_path("scripts")) or shutil.which("hairpin")
    if command is None:
        raise RecordError(f"{run}: there is no such file, and no command hairpin that could find such a run")
    try:
        done = subprocess.run([command, *arguments], capture_output=True, check=False)
    except OSError as error:
        raise RecordError(f"{run}: {command} does not start: {error.strerror or error}") from error
    if done.returncode != 0:
        raise RecordError(f"{run}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _text(name: str, data: bytes) -> str:
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(LARGEST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordError(f"{name}: it is packed with gzip, and damaged or cut off: {error}") from error
    if len(data) > LARGEST:
        raise RecordError(f"{name}: it holds more than {LARGEST >> 20} MiB, which no record does")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"{name}: it is not JSON: {error}") from error


def _records(name: str, text: str, run: str | None) -> Iterator[Record]:
    """Every record, with the lines of a stream before it. Lines that no record follows, as after a kill, are one too."""
    lines: list[Json] = []
    last, count = "", 0
    for value in _values(name, text):
        kind = _kind(name, value)
        if kind in _LINES:
            if lines and kind != last:
                raise RecordError(f"{name}: lines of a {last} stream end without its record")
            lines.append(value)
            last = kind
            continue
        count += 1
        yield Record(kind, value, name, run, lines)
        lines = []
    if lines:
        yield Record(last, lines[-1], name, run, lines)
    elif count == 0:
        raise RecordError(f"{name}: it is empty, so it holds no record")


def _values(name: str, text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        # Not only JSONDecodeError: later versions of Python refuse numbers of thousands of digits too.
        except ValueError as error:
            raise RecordError(f"{name}: it is not JSON, or it was cut off: {error}") from error
        except RecursionError as error:
            raise RecordError(f"{name}: its JSON is nested too deep for a record") from error
        yield value


def _kind(name: str, value: Any) -> str:
    schema = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(schema, str):
        raise RecordError(f'{name}: it has no field "schema", so it is no record of Hairpin')
    parts = _SCHEMA.fullmatch(schema)
    if parts is None or parts[1] not in ROWS:
        raise RecordError(f"{name}: it has schema {schema!r}, which this reader does not know")
    if parts[2] != "1":
        raise RecordError(f"{name}: it has schema {schema!r}, and this reader knows version 1: pip install --upgrade hairpin")
    return parts[1]
