"""A record, its tables and its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import parts
from .errors import RecordError
from .rows import ROWS
from .show import html
from .table import Json, Table, words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The tables that every record has, though some may be empty.
TABLES = ("rows", "blocks", "series", "histogram")
_HEAD = ("schema", "tool", "command", "started", "interrupted", "error")


class Tables:
    """The tables of one record or of several, as lists of dictionaries and as pandas DataFrames."""

    def _table(self, name: str) -> Table:
        raise NotImplementedError

    def table(self, name: str = "rows") -> list[Json]:
        """One of the tables `rows`, `blocks`, `series` and `histogram` as a list of dictionaries; needs no pandas.

        Every dictionary has every column; an unknown value is None.
        """
        return self._table(name).rows

    @property
    def rows(self) -> pd.DataFrame:
        """The rows and columns of the command's CSV, one for each result, stage, rate and so on; names end in their unit."""
        return _frame(self._table("rows"))

    @property
    def blocks(self) -> pd.DataFrame:
        """One row for each block of run, compare, sweep, tune try: `at_ns` since the start of measuring, RTT quantiles in ns."""
        return _frame(self._table("blocks"))

    @property
    def series(self) -> pd.DataFrame:
        """What happened over time: a row for each interval, trial, or event of a slow round trip; `at_ns` in ns."""
        return _frame(self._table("series"))

    @property
    def histogram(self) -> pd.DataFrame:
        """One row for each time that was recorded, ascending: `percentile` (0 to 100), `value_ns`, `count` up to it, `above` it.

        `row` is the place in `rows` that the histogram belongs to, `of` what it is of, such as `rtt`.
        """
        return _frame(self._table("histogram"))


class Record(Tables):
    """One record.

    `json` is the whole of it as Python objects, `kind` the middle of its schema's name, such as `run` or `explain-attached`,
    `source` the file that it comes from, and `run` its id if it lies in the store.
    """

    def __init__(self, kind: str, json: Json, source: str, run: str | None = None, lines: list[Json] | None = None) -> None:
        self.kind, self.json, self.source, self.run = kind, json, source, run
        #: The lines of `--json-stream` that stood before the record.
        self.lines: list[Json] = lines or []
        self._tables: dict[str, Table] = {}
        # Fails now if the record is not what it says.
        self._table("rows")

    @property
    def head(self) -> Json:
        """What every record begins with: schema, tool, command, started (UTC), interrupted, error. Missing ones are None."""
        return {name: self.json.get(name) for name in _HEAD}

    @property
    def error(self) -> str | None:
        """Why the run ended early, if it did; the rows are what was measured until then."""
        error = self.json.get("error")
        return None if error is None else str(error)

    @property
    def interrupted(self) -> bool:
        """True if somebody ended the run; the rows are what was measured until then."""
        return self.json.get("interrupted") is True

    def _table(self, name: str) -> Table:
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        if name not in self._tables:
            content = {**self.json, "run_id": self.run, "lines": self.lines}
            try:
                self._tables[name] = self._make(name, content)
            except (ValueError, OverflowError, RecursionError) as error:
                raise RecordError(f"{self.source}: it says that it is {self.json['schema']}, and is not: {error}") from None
        return self._tables[name]

    def _make(self, name: str, content: Json) -> Table:
        if name == "histogram":
            return parts.histogram(self.kind, content)
        makers = {"rows": ROWS, "blocks": parts.BLOCKS, "series": parts.SERIES}[name]
        return makers[self.kind](content) if self.kind in makers else Table((), [])

    def plot(self, ax: Axes | None = None, *, hrt: bool = False) -> Axes:
        """Draws the record with matplotlib, in `ax` or a figure of its own, and returns the axes.

        run, load, floor pcie: times by percentile, on log axes; `hrt` halves them (RTT/2, which is not the one-way delay).
        explain, floor: stages as bars. compare, sweep, tune try: ratios with their intervals. stream: frames per second.
        Raises NothingToDraw for other kinds.
        """
        from . import draw

        return draw.plot(self, ax, hrt)

    def __repr__(self) -> str:
        rows = len(self.table())
        return (
            f"<hairpin {self.kind}, {rows} row{'' if rows == 1 else 's'}, {self.json.get('started') or 'no time'}, {self.source}>"
        )

    def _repr_html_(self) -> str:
        return html(self.kind, words(self.json, "command"), self.ended, self._table("rows"))

    @property
    def ended(self) -> str:
        """How the run ended, in words; empty if it ran to its end."""
        if self.error is not None:
            return f"ended with an error: {self.error}"
        return "interrupted" if self.interrupted else ""


class Records(list[Record], Tables):
    """Several records of one file, as a list. Their tables stand one below the other, with `record` as the first column."""

    def _table(self, name: str) -> Table:
        tables = [record._table(name) for record in self]
        columns = dict.fromkeys(["record", *(column for table in tables for column in table.columns)])
        none = dict.fromkeys(columns)
        rows = [{**none, "record": n, **row} for n, table in enumerate(tables) for row in table.rows]
        return Table(tuple(columns), rows)

    def plot(self, *, hrt: bool = False) -> list[Axes]:
        """Draws each record in axes of its own, one below the other in one figure."""
        from . import draw

        return [draw.plot(record, ax, hrt) for record, ax in zip(self, draw.axes(len(self)))]

    def _repr_html_(self) -> str:
        return "".join(record._repr_html_() for record in self)


def _frame(table: Table) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError('tables as DataFrames need pandas: pip install "hairpin[pandas]" (or use .table())') from None
    frame = pd.DataFrame(table.rows, columns=list(table.columns))
    # As pandas.read_csv does: what is unknown in every row is a number.
    return frame.astype({name: float for name in table.columns if frame[name].isna().all()})
