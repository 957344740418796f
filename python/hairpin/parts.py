"""Blocks, series and histograms of each kind of record. `row` is the place in the rows that a line belongs to, from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Callable

from .histogram import percentiles
from .rows import bounced, explained, loads
from .table import Json, Table, at, each, some, table

_PATH = "row path request_bytes reply_bytes"


def _inner(record: Json, inner: str) -> Iterator[Json]:
    """The objects of a list in each result, with what names the result."""
    for row, of in enumerate(each(record, "results")):
        named = {name: of.get(name) for name in ("path", "request_bytes", "reply_bytes", "io", "direction", "frame_bytes")}
        yield from ({**item, **named, "row": row} for item in some(of, inner))


# Blocks


def _run_blocks(record: Json) -> Table:
    columns = """thread at_ns duration_ns transactions=count rtt_p50_ns=p50 rtt_p99_ns=p99 rtt_p99.9_ns=p99.9 core_rtt_ns
        clock_suspect"""
    return table(f"{_PATH} {columns}", ({"thread": 0, "clock_suspect": False, **block} for block in _inner(record, "blocks")))


_ARM = """given path round at_ns duration_ns transactions lost rtt_p50_ns=p50_ns rtt_p99_ns=p99_ns rtt_p99.9_ns=p99.9_ns
    cpu_per_transaction_ns=cpu_ns core_rtt_ns state"""


def _of_arms(arms: Iterable[Json]) -> Iterator[Json]:
    for arm in arms:
        named = {"arm": arm.get("name"), "given": arm.get("given"), "path": arm.get("path")}
        yield from ({**block, **named} for block in some(arm, "blocks"))


def _compare_blocks(record: Json) -> Table:
    return table(f"arm {_ARM}", _of_arms(each(record, "arms")))


def _sweep_blocks(record: Json) -> Table:
    cells = enumerate(each(record, "cells"))
    return table(f"row {_ARM}", ({**block, "row": row} for row, cell in cells for block in _of_arms([cell])))


def _tune_try_blocks(record: Json) -> Table:
    scopes: list[Json] = []
    for path in each(record, "paths"):
        for part in ("alone", "together"):
            scopes += ({**block, "part": part} for block in _of_arms(some(path, f"{part}/arms")))
    return table(f"part arm {_ARM}", scopes)


# Series


def _run_series(record: Json) -> Table:
    columns = f"{_PATH} thread at_ns transactions=count rtt_p50_ns=p50 rtt_p99_ns=p99 rtt_max_ns=max"
    return table(columns, ({"thread": 0, **point} for point in _inner(record, "series")))


def _stream_series(record: Json) -> Table:
    return table("row io direction frame_bytes asked_per_s offered_per_s lost", _inner(record, "search"))


def _explain_series(record: Json) -> Table:
    scopes: list[Json] = []
    for of in each(record, "results"):
        for rank, slow in enumerate(some(of, "slowest")):
            named = {"path": of.get("path"), "rank": rank, "slow": slow}
            scopes += ({**event, **named} for event in some(slow, "events"))
    return table("path rank rtt_ns=slow/rtt_ns cause=slow/cause at_ns side cpu event=name detail", scopes)


def _attached_series(record: Json) -> Table:
    columns = "at_ns view protocol server client sum_ns stage stage_excess_ns cause cause_ns who"
    return table(columns, some(record, "slowest"))


def _incident_series(record: Json) -> Table:
    return table("at_ns side cpu event=name detail", some(record, "events"))


def _progress_series(record: Json) -> Table:
    columns = """thread path at_ns duration_ns=interval/duration_ns transactions=interval/rtt_ns/count
        rtt_p50_ns=interval/rtt_ns/p50 rtt_p99_ns=interval/rtt_ns/p99 rtt_max_ns=interval/rtt_ns/max"""
    return table(columns, ({"thread": 0, **line} for line in each(record, "lines")))


def _bounce_series(record: Json) -> Table:
    columns = "at_ns duration_ns received=frames/received sent=frames/sent frames_per_s wire_bits_per_s kept lost"
    return table(columns, map(bounced, each(record, "lines")))


# Histograms

#: What an encoded histogram is of: place in the rows, path, name, text, and the exact quantiles beside it.
Encoded = tuple[int, object, str, object, object]


def _run_histograms(record: Json) -> Iterator[Encoded]:
    for row, of in enumerate(each(record, "results")):
        yield row, of.get("path"), "rtt", of.get("histogram"), of.get("rtt_ns")
        yield row, of.get("path"), "rtt_from_due", of.get("histogram_from_due"), of.get("rtt_from_due_ns")


def _load_histograms(record: Json) -> Iterator[Encoded]:
    for row, of in enumerate(loads(record)):
        for name in ("rtt_from_due", "rtt_from_sent", "lateness", "lateness_undisturbed"):
            yield row, at(of, "curve/path"), name, at(of, f"histograms/{name}"), of.get(f"{name}_ns")


def _mesh_histograms(record: Json) -> Iterator[Encoded]:
    for row, pair in enumerate(each(record, "pairs")):
        for visit in each(pair, "visits"):
            name = f"rtt of visit {visit.get('visit')}"
            yield row, record.get("path"), name, visit.get("histogram"), visit.get("rtt_ns")


def _noise_histograms(record: Json) -> Iterator[Encoded]:
    row = 0
    for core in each(record, "cores"):
        yield row, None, "stall", core.get("histogram"), core.get("stall_ns")
        # Its causes stand below it.
        row += 1 + len(list(some(core, "causes")))


def _explain_histograms(record: Json) -> Iterator[Encoded]:
    for row, of in enumerate(explained(record)):
        yield row, at(of, "of/path"), str(of.get("name")), of.get("histogram"), of.get("ns")


def _attached_histograms(record: Json) -> Iterator[Encoded]:
    row = -1
    for total in each(record, "totals"):
        # The sum stands below its stages.
        row += len(each(total, "stages")) + 1
        yield row, None, "sum", total.get("histogram"), total.get("sum_ns")


def _pcie_histograms(record: Json) -> Iterator[Encoded]:
    yield 0, None, "read", at(record, "reads/histogram"), at(record, "reads/read_ns")


def _progress_histograms(record: Json) -> Iterator[Encoded]:
    for row, line in enumerate(each(record, "lines")):
        yield row, line.get("path"), "rtt", at(line, "interval/histogram"), at(line, "interval/rtt_ns")


def histogram(kind: str, record: Json) -> Table:
    """The percentile tables of all histograms of a record, one below the other."""
    scopes: list[Json] = []
    for row, path, of, text, exact in HISTOGRAMS[kind](record) if kind in HISTOGRAMS else ():
        if not isinstance(text, str) or not text:
            continue
        least, most = at(exact, "min"), at(exact, "max")
        steps = percentiles(text, least if isinstance(least, int) else 0, most if isinstance(most, int) else 1 << 63)
        scopes += ({"row": row, "path": path, "of": of, **step} for step in steps)
    return table("row path of percentile value_ns count above", scopes)


#: What makes the blocks of each kind of record that has any.
BLOCKS: dict[str, Callable[[Json], Table]] = {
    "run": _run_blocks,
    "compare": _compare_blocks,
    "sweep": _sweep_blocks,
    "tune-try": _tune_try_blocks,
}

#: What makes the series.
SERIES: dict[str, Callable[[Json], Table]] = {
    "run": _run_series,
    "stream": _stream_series,
    "explain": _explain_series,
    "explain-attached": _attached_series,
    "incident": _incident_series,
    "progress": _progress_series,
    "bounce": _bounce_series,
    "bounce-second": _bounce_series,
}

#: Where the histograms stand.
HISTOGRAMS: dict[str, Callable[[Json], Iterator[Encoded]]] = {
    "run": _run_histograms,
    "load": _load_histograms,
    "mesh": _mesh_histograms,
    "noise": _noise_histograms,
    "explain": _explain_histograms,
    "explain-attached": _attached_histograms,
    "floor-pcie": _pcie_histograms,
    "progress": _progress_histograms,
}
