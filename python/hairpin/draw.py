"""Pictures of records with matplotlib. Each says what the figure is, its unit, how many samples it rests on, and the link."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

from .errors import NothingToDraw
from .table import Json, at, each, number, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

    from .record import Record

#: Shares of the samples, in percent, that a percentile axis names.
_TICKS = (0, 90, 99, 99.9, 99.99, 99.999, 99.9999)


def axes(rows: int) -> list[Axes]:
    """New axes, one below the other."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "hairpin[plot]"') from None
    return list(pyplot.subplots(rows, squeeze=False, figsize=(9, 5 * rows), layout="constrained")[1][:, 0])


def plot(record: Record, ax: Axes | None, hrt: bool) -> Axes:
    """Draws the record in `ax`, or in new axes."""
    if record.kind not in _PICTURES:
        raise NothingToDraw(f"{record.source}: a record of the kind {record.kind} has no picture; its figures are in .rows")
    if hrt and record.kind not in _CURVES:
        raise NothingToDraw(f"{record.source}: a record of the kind {record.kind} has no RTT to halve")
    ax = axes(1)[0] if ax is None else ax
    what = _PICTURES[record.kind](record, ax, hrt)
    origins = {str(of.get("origin", "measured")) for of in (record.json, *some(record.json, "results"))} - {"measured"}
    known = [what, _link(record.json), *sorted(origins), record.json.get("started"), record.ended]
    title = ", ".join(str(part) for part in known if part)
    # What a record says may hold a $, which is no formula.
    ax.set_title("\n".join(textwrap.wrap(title, 100)), fontsize="medium", parse_math=False)
    return ax


def _link(record: Json) -> str:
    """The link that was measured over, in words."""
    alone = next((path.get("alone") for path in some(record, "paths")), None)
    arms = [*some(record, "arms"), *some(record, "cells"), *some(alone, "arms")]
    link: Json = next((of["link"] for of in (record, *arms) if isinstance(of.get("link"), dict)), {})
    return " ".join(str(link[name]) for name in ("kind", "interface", "peer") if link.get(name))


def _path(of: Json) -> str:
    """A path spec; of two equal sides one."""
    client, _, server = str(of.get("path")).partition("/")
    return client if client == server else f"{client}/{server}"


def _size(of: Json) -> str:
    sizes = [of.get("request_bytes"), of.get("reply_bytes")]
    return " -> ".join(dict.fromkeys(f"{size} B" for size in sizes if size is not None))


# Times by percentile


def _curves(record: Record, ax: Axes, of: str, time: str, named: Callable[[int], str], hrt: bool) -> None:
    curves: dict[int, list[Json]] = {}
    for step in record.table("histogram"):
        if step["of"] == of:
            curves.setdefault(step["row"], []).append(step)
    if not curves:
        raise NothingToDraw(f"{record.source}: it has no times to draw")
    for n, (row, steps) in enumerate(curves.items()):
        total = steps[-1]["count"]
        # Of n samples, the last stands at 1 - 1/2n.
        shares = [total / (step["above"] or 0.5) for step in steps]
        # There are ten colours.
        style = ("-", "--", ":", "-.")[n // 10 % 4]
        scale = 2000.0 if hrt else 1000.0
        # A leading underscore would keep a name out of the legend.
        label = f"{named(row)}, {total} samples".lstrip("_")
        ax.plot(
            [1.0, *shares],
            [step["value_ns"] / scale for step in (steps[0], *steps)],
            drawstyle="steps-pre",
            label=label,
            linestyle=style,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    most = max(steps[-1]["count"] for steps in curves.values())
    ticks = [tick for tick in _TICKS if 100 / (100 - tick) <= 2 * most]
    ax.set_xticks([100 / (100 - tick) for tick in ticks], [f"{tick:g} %" for tick in ticks])
    ax.set_xticks([], minor=True)
    _plain(ax.yaxis)
    ax.grid(alpha=0.3)
    ax.set_xlabel("samples up to this time")
    ax.set_ylabel(f"{time.replace('RTT', 'RTT/2, not one-way', 1) if hrt else time}, us")
    # Many names stand beside the curves, in letters that leave room for all.
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(curves) > 8 else {}
    _literal(ax.legend(fontsize=min(8, 250 / len(curves)), **beside))


def _literal(legend: Legend) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)


def _plain(axis: Axis) -> None:
    """Numbers of a log axis as they are: 100 and 200, not powers of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def _run(record: Record, ax: Axes, hrt: bool) -> str:
    results = each(record.json, "results")

    def named(row: int) -> str:
        origin, reply = results[row].get("origin", "measured"), results[row].get("reply")
        path = _path(results[row]) + (f" {reply}" if reply else "")
        return f"{path}, {_size(results[row])}" + ("" if origin == "measured" else f", {origin}")

    _curves(record, ax, "rtt", "RTT", named, hrt)
    return f"{'RTT/2 (not one-way)' if hrt else 'RTT'} by percentile"


def _load(record: Record, ax: Axes, hrt: bool) -> str:
    rows = record.table("rows")

    def named(row: int) -> str:
        return f"{_path(rows[row])}, {number(rows[row]['offered_per_s']) or 0:g}/s offered"

    _curves(record, ax, "rtt_from_due", "RTT from due", named, hrt)
    return f"{'RTT/2 (not one-way)' if hrt else 'RTT'} from due by percentile"


def _pcie(record: Record, ax: Axes, hrt: bool) -> str:
    if hrt:
        raise NothingToDraw(f"{record.source}: a read of a device is no RTT to halve")
    _curves(record, ax, "read", "read of 4 bytes", lambda _: str(at(record.json, "device/address")), False)
    return "reads of a PCI device by percentile"


# Ratios with their intervals

#: A name, and the ratio with both ends of its interval.
_Ratio = tuple[str, Json]


def _ratios(record: Record, ax: Axes, found: Iterable[_Ratio], confidence: Any) -> None:
    known = [(name, ratio) for name, ratio in found if number(ratio.get("ratio"))]
    if not known:
        raise NothingToDraw(f"{record.source}: it has no ratio to draw")
    for place, (_, ratio) in enumerate(known):
        middle = ratio["ratio"]
        low, high = (middle if number(ratio.get(end)) is None else ratio[end] for end in ("low", "high"))
        ax.errorbar([middle], [place], xerr=[[max(middle - low, 0)], [max(high - middle, 0)]], fmt="o", color="C0", capsize=3)
    ax.axvline(1, color="grey", linewidth=1)
    ends: list[Any] = [
        1,
        *(end for _, ratio in known for end in (ratio["ratio"], ratio.get("low"), ratio.get("high")) if number(end)),
    ]
    if 0 < 2 * min(ends) < max(ends):
        # Half and double are as far from 1.
        ax.set_xscale("log")
        _plain(ax.xaxis)
    _names(ax, [name for name, _ in known])
    ax.grid(axis="x", alpha=0.3)
    share = number(confidence)
    ax.set_xlabel("ratio, 1 is no difference" + ("" if share is None else f"; bars are intervals of {100 * share:.4g} %"))


def _names(ax: Axes, names: list[str]) -> None:
    """Names the places of a vertical axis, the first at the top."""
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)


def _figure(found: Json) -> str:
    figure = str(found.get("figure"))
    return {"rate": "transactions/s", "cpu": "CPU time"}.get(figure, f"RTT {figure}")


def _compare(record: Record, ax: Axes, _: bool) -> str:
    given = {str(arm.get("name")): arm.get("given") for arm in each(record.json, "arms")}

    def found() -> Iterator[_Ratio]:
        for row in record.table("rows"):
            yield f"{given.get(str(row['arm']))} / {given.get(str(row['against']))}\n{_figure(row)}, {row['pairs']} pairs", row

    _ratios(record, ax, found(), at(record.json, "method/confidence_each"))
    return "figures of one arm by those of the other"


def _sweep(record: Record, ax: Axes, _: bool) -> str:
    def found() -> Iterator[_Ratio]:
        for effect in each(record.json, "main_effects"):
            name = f"{effect.get('factor')}: {effect.get('level')} / {effect.get('against')}"
            for ratio in some(effect, "figures"):
                if ratio.get("figure") == "p50":
                    yield f"{name}, {ratio.get('rounds')} rounds", ratio

    _ratios(record, ax, found(), record.json.get("confidence_each"))
    return "RTT p50 of a level by that of another, mean over the cells"


def _tune_try(record: Record, ax: Axes, _: bool) -> str:
    def found() -> Iterator[_Ratio]:
        for row in record.table("rows"):
            if row["figure"] == "p50":
                yield f"{row['setting']}\n{_path(row)}, {row['pairs']} pairs", row

    first = next((path.get("alone") for path in each(record.json, "paths")), None)
    _ratios(record, ax, found(), at(first, "method/confidence_each"))
    return "RTT p50 with a setting by that without"


# Stages


def _stages(record: Record, ax: Axes, bars: list[tuple[str, list[tuple[str, Any]]]], scale: float) -> None:
    """A bar for each name, of stages that follow each other; a stage has one colour in all of them. Lengths are times `scale`."""
    kinds = list(dict.fromkeys(stage for _, stages in bars for stage, length in stages if number(length)))
    if not kinds:
        raise NothingToDraw(f"{record.source}: it has no stage to draw")
    from matplotlib import colormaps

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    labelled = set()
    for place, (_, stages) in enumerate(bars):
        left = 0.0
        for stage, length in stages:
            if number(length):
                label = None if stage in labelled else stage.lstrip("_")
                ax.barh(place, scale * length, 0.6, left=left, color=colours[kinds.index(stage) % len(colours)], label=label)
                labelled.add(stage)
                left += scale * length
    _names(ax, [name for name, _ in bars])
    _literal(ax.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1)))


def _explain(record: Record, ax: Axes, _: bool) -> str:
    bars = []
    for of in each(record.json, "results"):
        stages = [(f"{stage.get('side')}: {stage.get('name')}", stage.get("typical_ns")) for stage in each(of, "stages")]
        stages += [(rest, at(of, f"typical/{rest}_ns")) for rest in ("observer", "residual")]
        bars.append((f"{_path(of)}, {_size(of)}\n{at(of, 'typical/count')} of {at(of, 'rtt_ns/count')} traced", stages))
    _stages(record, ax, bars, 1e-3)
    ax.set_xlabel("mean over the typical round trips (RTT from p40 to p60), us")
    return "RTT by stage"


def _attached(record: Record, ax: Axes, _: bool) -> str:
    bars = []
    for total in each(record.json, "totals"):
        stages = [(f"{stage.get('side') or ''}: {stage.get('name')}", stage.get("share")) for stage in each(total, "stages")]
        bars.append((f"seen from {total.get('view')}\n{at(total, 'sum_ns/count')} transactions", stages))
    _stages(record, ax, bars, 100)
    ax.set_xlabel("share of the time of all transactions, %")
    return "time of a server's transactions by stage"


def _floor(record: Record, ax: Axes, _: bool) -> str:
    floors = [record.json[name] for name in ("first", "second") if name in record.json] or [record.json]
    bars = []
    for floor in floors:
        stages = [(str(stage.get("name")), _middle(stage)) for stage in each(floor, "stages")]
        bars.append((f"{floor.get('nic')}, {floor.get('size_bytes')} B {floor.get('counts')}", stages))
    _stages(record, ax, bars, 1e-3)
    ax.set_xlabel("one way, us; of a stage with a range, its middle")
    return "floor of one way by stage, from published, derived and assumed times; nothing was measured"


def _middle(stage: Json) -> Any:
    low, high = number(stage.get("low_ns")), number(stage.get("high_ns"))
    return stage.get("ns") if low is None or high is None else (low + high) / 2


def _stream(record: Record, ax: Axes, _: bool) -> str:
    rows = record.table("rows")
    if not rows:
        raise NothingToDraw(f"{record.source}: it has no frames to draw")
    names = []
    for place, row in enumerate(rows):
        free = row["lossless_offered_per_s"]
        counted = row["delivered_per_s"] is not None
        shown = free or row["delivered_per_s" if counted else "offered_per_s"] or 0
        ax.barh(place, shown, 0.6, color="C0" if free else "none", edgecolor="C0")
        what = "without loss" if free else f"{row['lost']} of {row['offered']} lost" if counted else "arrivals not counted"
        names.append(f"{row['io']}, {row['direction']}\n{row['frame_bytes']} B, {what}, {row['offered']} frames")
    _names(ax, names)
    ax.set_xlabel("frames per second; filled: without loss, empty: delivered, or offered where no end counts arrivals")
    return "frame rate"


#: Kinds whose picture shows times, which can be halved.
_CURVES = ("run", "load", "floor-pcie")
#: What draws each kind, and says what it drew.
_PICTURES: dict[str, Callable[[Record, Axes, bool], str]] = {
    "run": _run,
    "load": _load,
    "floor-pcie": _pcie,
    "compare": _compare,
    "sweep": _sweep,
    "tune-try": _tune_try,
    "explain": _explain,
    "explain-attached": _attached,
    "floor": _floor,
    "floor-comparison": _floor,
    "stream": _stream,
}
