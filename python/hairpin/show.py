"""A record as a small HTML table, for Jupyter."""

from __future__ import annotations

from html import escape
from typing import Any

from .table import Table

_MOST_ROWS = 20
#: The columns that say most; of other kinds the first eight.
_SHOWN = {
    "run": "path request_bytes transactions rtt_p50_ns rtt_p99_ns rtt_p99.9_ns rtt_max_ns transactions_per_s warnings",
    "load": "path offered_per_s achieved_per_s transactions rtt_from_due_p50_ns rtt_from_due_p99_ns rtt_from_due_max_ns lost",
    "mesh": "host_a host_b visits transactions p50_ns p99_ns max_ns missing",
    "stream": "io direction frame_bytes lossless_offered_per_s delivered_per_s lost warnings",
    "explain": "path stage side direction p50_ns p99_ns typical_mean_ns slow_mean_ns",
}


def html(kind: str, command: str, ended: str, table: Table) -> str:
    """What a notebook shows of a record."""
    columns = _SHOWN[kind].split() if kind in _SHOWN else table.columns[:8]
    lines = [[_text(row[column]) for column in columns] for row in table.rows[:_MOST_ROWS]]
    more = f"<p>{len(table.rows) - _MOST_ROWS} more rows</p>" if len(table.rows) > _MOST_ROWS else ""
    ended = f"<p><b>{escape(ended)}</b></p>" if ended else ""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
    return (
        f"<p>hairpin {escape(kind)}: <code>{escape(command)}</code></p>{ended}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
