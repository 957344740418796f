"""The rows of each kind of record: the same rows and columns as the command's own CSV (`hairpin runs export RUN`).

Names end in their unit. Times are in ns, rates per second, shares and ratios plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Callable

from .table import Json, Table, at, each, number, some, table, words


def _quantiles(name: str, path: str, which: str = "p50 p99 p99.9 max") -> str:
    """Columns of quantiles: `NAME_p50_ns` and so on."""
    return " ".join(f"{name}_{quantile}_ns={path}/{quantile}" for quantile in which.split())


_PARTS = "client-out wire server-in turn-around server-out client-in client server hosts beyond"
_SPLIT = f"""{_quantiles("split_rtt", "split/rtt_ns", "p50 p99")}
    {" ".join(_quantiles(f"split_{part.replace('-', '_')}", f"parts/{part}", "p50 p99") for part in _PARTS.split())}
    split_stamps_client=stamps/client split_stamps_server=stamps/server split_transactions=split/counts/transactions
    split_complete=split/counts/complete split_missing=split/counts/missing split_impossible=split/counts/impossible"""
_RUN = f"""started=record/started link=record/link/kind path origin request_bytes reply_bytes flows threads outstanding pace_per_s
    transactions lost late duplicates reordered corrupt duration_ns gap_ns transactions_per_s
    {_quantiles("rtt", "rtt_ns", "min mean stddev p50 p90 p99 p99.9 max")} {_quantiles("turnaround", "turnaround_ns", "p50 p99")}
    cpu_client_per_transaction_ns=cpu/client/per_transaction_ns cpu_server_per_transaction_ns=cpu/server/per_transaction_ns
    tcp_client_mss_bytes=tcp/client/mss
    tcp_client_segments_out_per_transaction=tcp/client/segments_out_per_transaction
    tcp_client_segments_in_per_transaction=tcp/client/segments_in_per_transaction
    tcp_server_mss_bytes=tcp/server/mss
    tcp_server_segments_out_per_transaction=tcp/server/segments_out_per_transaction
    tcp_server_segments_in_per_transaction=tcp/server/segments_in_per_transaction
    connect_p50_ns=parts_ns/connect/p50 exchange_p50_ns=parts_ns/exchange/p50 close_p50_ns=parts_ns/close/p50
    warnings=codes run=record/run_id client_hostname=record/hosts/client/hostname server_hostname=record/hosts/server/hostname
    {" ".join(f"{of}_stack=stack/{of}/name {of}_stack_received=stack/{of}/received {of}_stack_passed_kernel=stack/{of}/kernel/count" for of in ("client", "server"))}
    {_SPLIT}
    one_way_request_p50_ns=one_way/request_ns/p50 one_way_reply_p50_ns=one_way/reply_ns/p50 one_way_bound_ns=one_way/bound_ns reply"""


def _split(row: Json) -> Json:
    """The parts of a row's split by their names, and the layer of each side's stamps."""
    split = row.get("split")
    parts = {str(part.get("part")): part.get("ns") for part in some(split, "parts")}
    stamps = {str(of.get("side")): of.get("layer") for of in some(split, "stamps")}
    return {"parts": parts, "stamps": stamps}


def _run(record: Json) -> Table:
    rows = each(record, "results")
    return table(_RUN, ({**row, **_split(row), "codes": words(row, "warnings", "code"), "record": record} for row in rows))


_LOAD = f"""started=record/started link=record/link/kind path=curve/path request_bytes=curve/request_bytes
    reply_bytes=curve/reply_bytes flows=curve/flows outstanding=curve/outstanding schedule=record/schedule/kind
    offered_per_s achieved_per_s due sent unsent found_no_room transactions lost
    {_quantiles("rtt_from_due", "rtt_from_due_ns")} {_quantiles("rtt_from_sent", "rtt_from_sent_ns")}
    {_quantiles("lateness", "lateness_ns")} stalls=stalls/count stalled_ns=stalls/total_ns bulk_bits_per_s=bulk/bits_per_s
    warnings=codes late_replies=late unanswered left_out wall_ns repeat {_SPLIT}"""
#: Fields that the first version did not write, and what it meant by that.
_LOAD_ONCE = dict.fromkeys(("unanswered", "left_out", "wall_ns", "repeat"), 0)


def loads(record: Json) -> Iterator[Json]:
    """Every rate of every path, with its `curve` and the `record`."""
    for curve in each(record, "results"):
        for row in each(curve, "rates"):
            yield {**_LOAD_ONCE, **row, **_split(row), "codes": words(row, "warnings", "code"), "curve": curve, "record": record}


def _load(record: Json) -> Table:
    return table(_LOAD, loads(record))


_STREAM = """started=record/started link=record/link/kind io direction frame_bytes queues
    lossless_offered_per_s=lossless/offered_per_s lossless_wire_bits_per_s=lossless/wire_bits_per_s
    asked_per_s=offered/asked_per_s offered_per_s=offered/offered_per_s
    delivered_per_s=offered/delivered_per_s wire_bits_per_s=offered/wire_bits_per_s
    duration_ns=offered/duration_ns offered=offered/offered delivered=offered/delivered lost=offered/lost
    rx_ring_full=offered/lost_by_cause/rx_ring_full rx_no_chunk=offered/lost_by_cause/rx_no_chunk
    rx_dropped=offered/lost_by_cause/rx_dropped rx_too_long=offered/lost_by_cause/rx_too_long
    rx_invalid=offered/lost_by_cause/rx_invalid tx_invalid=offered/lost_by_cause/tx_invalid
    tx_dropped=offered/lost_by_cause/tx_dropped lost_elsewhere=offered/lost_elsewhere duplicates=offered/duplicates
    reordered=offered/reordered foreign=offered/foreign cpu_client_per_frame_ns=offered/cpu/client/per_transaction_ns
    cpu_server_per_frame_ns=offered/cpu/server/per_transaction_ns warnings=codes loses_per_s"""


def _stream(record: Json) -> Table:
    return table(_STREAM, ({**row, "codes": words(row, "warnings", "code"), "record": record} for row in each(record, "results")))


_EXPLAIN = """path=of/path request_bytes=of/request_bytes reply_bytes=of/reply_bytes stage=name side direction
    count=ns/count p50_ns=ns/p50 p99_ns=ns/p99 typical_mean_ns=typical_ns slow_mean_ns=slow_ns"""


def explained(record: Json) -> Iterator[Json]:
    """Every stage of every path, then the observer, the residual and the RTT."""
    for of in each(record, "results"):
        rest = {"observer": "observer_ns", "residual": "residual_ns", "RTT": "rtt_ns"}
        whole = [
            {"name": name, "ns": of.get(field), "typical_ns": at(of, f"typical/{field}"), "slow_ns": at(of, f"slow/{field}")}
            for name, field in rest.items()
        ]
        # No round trips, no mean.
        unknown = {f"{group}_ns": None for group in ("typical", "slow") if not at(of, f"{group}/count")}
        for stage in [*each(of, "stages"), *whole]:
            yield {**stage, **unknown, "of": of}


def _explain(record: Json) -> Table:
    return table(_EXPLAIN, explained(record))


def _attached(record: Json) -> Table:
    scopes: list[Json] = []
    for total in each(record, "totals"):
        whole = {"name": "sum", "ns": total.get("sum_ns"), "share": 1.0}
        of = {"view": total.get("view"), "roles": words(total, "roles")}
        scopes += ({**stage, **of} for stage in [*each(total, "stages"), whole])
    return table("view stage=name side count=ns/count p50_ns=ns/p50 p99_ns=ns/p99 max_ns=ns/max share roles direction", scopes)


#: The figures of an experiment, as estimates and as arms name them.
_FIGURES = {"p50": "p50_ns", "p99": "p99_ns", "p99.9": "p99.9_ns", "rate": "rate_per_s", "cpu": "cpu_ns"}


def _compare(record: Json) -> Table:
    arms = {str(arm.get("name")): arm for arm in each(record, "arms")}
    scopes: list[Json] = []
    for comparison in each(record, "comparisons"):
        names = {name: comparison.get(name) for name in ("arm", "against", "verdict")}
        for found in each(comparison, "figures"):
            figure = str(found.get("figure"))
            value, base = found.get("value"), found.get("base")
            # The first version had only the figures of all transactions.
            if value is None or base is None:
                pooled = f"figures/{_FIGURES.get(figure, figure)}"
                value, base = (at(arms.get(str(names[arm])), pooled) for arm in ("arm", "against"))
            scopes.append({**found, **names, "value": value, "base": base, "unit": "1/s" if figure == "rate" else "ns"})
    return table("arm against verdict figure unit value value_against=base ratio low high difference pairs", scopes)


def _tried(record: Json) -> Iterator[Json]:
    """Every figure of each setting alone and of the winners together."""
    settings = [setting.get("setting") for setting in each(record, "settings")]
    for path in each(record, "paths"):
        alone = path.get("alone")
        arms = [arm.get("path") for arm in some(alone, "arms")]
        named = [(settings[n] if n < len(settings) else "?", found) for n, found in enumerate(some(alone, "comparisons"))]
        named += [(words(record, "winners"), found) for found in list(some(path, "together/comparisons"))[:1]]
        for setting, comparison in named:
            for found in each(comparison, "figures"):
                yield {**found, "path": arms[0] if arms else "", "setting": setting, "verdict": comparison.get("verdict")}


def _tune_try(record: Json) -> Table:
    return table("path setting verdict figure ratio low high pairs", _tried(record))


def _sweep(record: Json) -> Table:
    factors = [re.sub("[^a-z0-9.]+", "_", str(factor.get("name")).lower()).strip("_") for factor in each(record, "factors")]
    scopes: list[Json] = []
    for cell in each(record, "cells"):
        # The medians of the blocks; where those are too short for a figure, that of all transactions.
        figures = {name: _first(at(cell, f"typical/{name}"), at(cell, f"figures/{name}")) for name in _FIGURES.values()}
        bulk = number(cell.get("bulk_bits_per_s"))
        levels = cell.get("levels")
        levels = dict(zip(factors, map(_level, levels if isinstance(levels, list) else [])))
        segments = cell.get("segments_out_per_transaction")
        scopes.append({**figures, "segments": segments, "bulk": bulk and bulk / 1e9, "levels": levels})
    columns = " ".join(f"{factor}=levels/{factor}" for factor in factors)
    columns += " trans_per_s=rate_per_s rtt_p50_ns=p50_ns rtt_p99_ns=p99_ns rtt_p99.9_ns=p99.9_ns cpu_ns"
    columns += " segments" if any(scope["segments"] is not None for scope in scopes) else ""
    columns += " bulk_gbit_per_s=bulk" if any(scope["bulk"] is not None for scope in scopes) else ""
    return table(columns, scopes)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _level(level: Any) -> Any:
    """A level of a factor: a number, such as a size, or a word."""
    return int(level) if re.fullmatch("-?[0-9]{1,18}", str(level)) else level


_BOUNCE = """started io filter duration_ns received=frames/received received_bytes=frames/received_bytes sent=frames/sent
    sent_bytes=frames/sent_bytes frames_per_s wire_bits_per_s kept lost wrong_checksum=frames/wrong_checksum
    cpu_per_frame_ns=cpu/per_transaction_ns"""


def bounced(line: Json) -> Json:
    """The whole of a bouncing, or a second of it, with the sums of the frames that did not go back."""
    kept, lost = at(line, "frames/kept"), at(line, "frames/lost")
    if not isinstance(kept, dict) or not isinstance(lost, dict):
        raise ValueError('its field "frames" is not what it should be')
    full = number(at(line, "frames/tx_ring_full")) or 0
    return {**line, "kept": sum(map(_count, kept.values())), "lost": sum(map(_count, lost.values())) + full}


def _count(value: Any) -> float:
    return number(value) or 0


def _bounce(record: Json) -> Table:
    return table(_BOUNCE, [bounced(record)])


def _bounce_second(record: Json) -> Table:
    columns = """at_ns duration_ns received=frames/received received_bytes=frames/received_bytes sent=frames/sent
        sent_bytes=frames/sent_bytes frames_per_s wire_bits_per_s kept lost wrong_checksum=frames/wrong_checksum"""
    return table(columns, map(bounced, each(record, "lines")))


def _progress(record: Json) -> Table:
    columns = f"""at_ns thread path request_bytes reply_bytes sent transactions lost late transactions_per_s
        {_quantiles("rtt", "rtt_ns", "min mean stddev p50 p90 p99 p99.9 max")}"""
    return table(columns, ({"thread": 0, **line} for line in each(record, "lines")))


def _check(record: Json) -> Table:
    bound = {"bound": record.get("bound_ns"), "test": "delay"}
    columns = "test known_ns={} reported_ns={} error_ns bound_ns=bound verdict"
    delays = table(columns.format("injected_ns", "reported_ns"), ({**delay, **bound} for delay in each(record, "delays")))
    bound = {"bound": record.get("latency_bound_ns"), "test": "latency"}
    latencies = table(columns.format("sum_ns", "measured_ns"), ({**found, **bound} for found in some(record, "latencies")))
    return Table(delays.columns, delays.rows + latencies.rows)


_NOISE = """row cpu peer cause who duration_ns count lost_ns above_1us above_10us above_100us p50_ns=stall_ns/p50 p99_ns=stall_ns/p99
    p99.9_ns=stall_ns/p99.9 max_ns=stall_ns/max steal_ns core_rtt_ns"""


def _noise(record: Json) -> Table:
    """A row for each core and below it its causes, then the pairs."""
    scopes: list[Json] = []
    for core in each(record, "cores"):
        scopes.append({**core, "row": "core", "count": at(core, "stall_ns/count")})
        own = {"row": "cause", "cpu": core.get("cpu"), "duration_ns": core.get("traced_ns")}
        for cause in some(core, "causes"):
            scopes.append({**own, **{name: cause.get(name) for name in ("cause", "count", "lost_ns")}, "who": cause.get("who") or None})
    for pair in each(record, "pairs"):
        scopes.append({"row": "pair", "cpu": pair.get("client"), "peer": pair.get("server"), "core_rtt_ns": pair.get("core_rtt_ns")})
    return table(_NOISE, scopes)


def _noise_comparison(record: Json) -> Table:
    """A row for each count of stalls, then for each cause."""
    columns = "cpu what who first_count first_ns second_count second_ns ratio low high change"
    return table(columns, [*each(record, "stalls"), *each(record, "causes")])


def _incident(record: Json) -> Table:
    """One row: the round trip, and its largest cause."""
    largest = next(some(record, "causes"), {})
    cause = {"cause": largest.get("cause"), "who": largest.get("who") or None, "cause_ns": largest.get("lost_ns")}
    columns = "at path peer rtt_ns above_ns typical_rtt_ns cause who cause_ns sequence dropped"
    return table(columns, [{**record, **cause}])


def _span(name: str, path: str) -> str:
    return f"{name}ns={path}ns {name}low_ns={path}low_ns {name}high_ns={path}high_ns"


def _class(floor: Json) -> str:
    """What a floor rests on as a whole."""
    classes = [stage.get("class") for stage in some(floor, "stages")]
    if "assumed" in classes:
        return "assumed"
    return "published" if classes == ["published"] else "derived"


def _floor(record: Json) -> Table:
    whole = {name: record.get(f"total_{name}") for name in ("ns", "low_ns", "high_ns")}
    stages = [*each(record, "stages"), {**whole, "name": "one way", "class": _class(record)}]
    columns = f"nic=floor/nic size_bytes=floor/size_bytes stage=name {_span('', '')} class source"
    return table(columns, ({**stage, "floor": record} for stage in stages))


def _floor_sizes(record: Json) -> Table:
    columns = f"""nic size_bytes frame_bytes wire_bytes {_span("one_way_", "total_")} {_span("rtt_", "rtt/")}
        line_rate_frames_per_s class=whole"""
    return table(columns, ({**floor, "whole": _class(floor)} for floor in each(record, "floors")))


def _floor_comparison(record: Json) -> Table:
    floors = {name: record.get(name) for name in ("first", "second")}
    one_way = {name: {end: at(floor, f"total_{end}") for end in ("low_ns", "high_ns")} for name, floor in floors.items()}
    rtt = {name: at(floor, "rtt") for name, floor in floors.items()}
    low = _less(at(rtt, "second/low_ns"), at(rtt, "first/high_ns"))
    high = _less(at(rtt, "second/high_ns"), at(rtt, "first/low_ns"))
    wholes = [
        {**one_way, "stage": "one way", "difference": record.get("difference")},
        {**rtt, "stage": "RTT", "difference": {"low_ns": low, "high_ns": high}},
    ]
    ends = " ".join(f"{of}_{end}={of}/{end}" for of in ("first", "second", "difference") for end in ("low_ns", "high_ns"))
    return table(f"stage {ends}", [*each(record, "differences"), *wholes])


def _less(one: Any, other: Any) -> Any:
    # Times of a floor are whole picoseconds.
    return None if number(one) is None or number(other) is None else round(one - other, 3)


def _floor_fit(record: Json) -> Table:
    columns = """path from_bytes to_bytes base_ns=base_ns/value base_low_ns=base_ns/low base_high_ns=base_ns/high
        ns_per_byte=ns_per_byte/value ns_per_byte_low=ns_per_byte/low ns_per_byte_high=ns_per_byte/high"""
    lines = ((path, at(path, f"fit/{line}")) for path in each(record, "paths") for line in ("line", "above"))
    return table(columns, ({**line, "path": path.get("path")} for path, line in lines if isinstance(line, dict)))


def _pcie(record: Json) -> Table:
    read = at(record, "reads/read_ns")
    if not isinstance(read, dict):
        raise ValueError('its field "reads" is not what it should be')
    columns = "reads=count mean_ns=mean stddev_ns=stddev min_ns=min p50_ns=p50 p90_ns=p90 p99_ns=p99 p99.9_ns=p99.9 max_ns=max"
    return table(columns, [read])


def _primitives(record: Json) -> Table:
    steps = ({**step, "by": way.get("name")} for way in each(record, "implementations") for step in each(way, "steps"))
    return table("step=name implementation=by alone_ns in_a_row_ns", steps)


def _published(record: Json) -> Table:
    rows = some(record, "published/rows")
    return table("the_cpu_meanwhile=cpu mean_ns=mean stddev_ns=stddev min_ns=min max_ns=max", rows)


def _tune_list(record: Json) -> Table:
    scopes = []
    for knob in each(record, "knobs"):
        change = knob.get("change")
        safe = _yes(at(change, "safe")) if change else None
        now = None if knob.get("now") is None else _fact(knob["now"])
        scopes.append({**knob, "now": now, "can": _yes(change), "safe": safe, "values": at(change, "values")})
    return table("setting=name now unread can_be_changed=can safe values summary", scopes)


def _yes(value: Any) -> str:
    return "yes" if value else "no"


def _fact(value: Any) -> str:
    """A fact of the host in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_fact(item)}" for key, item in value.items())
    return str(value)


def _tune_check(record: Json) -> Table:
    found = ({**finding, "boot": _yes(finding.get("at_boot"))} for finding in each(record, "findings"))
    return table("setting=name stake_ns now better effect cost at_boot=boot fix", found)


_CHANGE = "setting=knob was=from is_to_be=to outcome where=place"


def _tune_changes(record: Json) -> Table:
    changes = each(record, "changes")
    if record.get("action") == "revert":
        # Each goes back.
        changes = [{**change, "from": change.get("to"), "to": change.get("from")} for change in changes]
    return table(_CHANGE, changes)


def _tune_status(record: Json) -> Table:
    scopes: list[Json] = []
    for entry in each(record, "entries"):
        scopes += ({**change, "entry": entry, "line": words(entry, "command")} for change in each(entry, "changes"))
    return table(f"id=entry/id state=entry/state started=entry/started command=line {_CHANGE}", scopes)


_MESH = """started=record/started mesh=record/id a b host_a host_b visits=measured transactions lost min_ns=rtt_ns/min p50_ns=rtt_ns/p50
    p90_ns=rtt_ns/p90 p99_ns=rtt_ns/p99 p99.9_ns=rtt_ns/p99.9 max_ns=rtt_ns/max missing=why"""


def _mesh(record: Json) -> Table:
    hosts = {str(rank.get("rank")): rank.get("host") for rank in each(record, "ranks")}

    def pairs() -> Iterator[Json]:
        for pair in each(record, "pairs"):
            visits = list(each(pair, "visits"))
            # Those that measured stages have no round trips.
            measured = [visit for visit in visits if visit.get("missing") is None and not visit.get("stages")]
            whys = [str(visit["missing"]) for visit in visits if visit.get("missing") is not None]
            yield {
                **pair,
                **{f"host_{end}": hosts.get(str(pair.get(end)), f"rank {pair.get(end)}") for end in "ab"},
                "measured": len(measured),
                "transactions": sum(number(visit.get("transactions")) or 0 for visit in measured),
                "lost": sum(number(visit.get("lost")) or 0 for visit in measured),
                "why": "; ".join(why for n, why in enumerate(whys) if n == 0 or why != whys[n - 1]),
                "record": record,
            }

    return table(_MESH, pairs())


#: What makes the rows of each kind of record.
ROWS: dict[str, Callable[[Json], Table]] = {
    "run": _run,
    "explain": _explain,
    "explain-attached": _attached,
    "compare": _compare,
    "load": _load,
    "mesh": _mesh,
    "stream": _stream,
    "sweep": _sweep,
    "tune-try": _tune_try,
    "bounce": _bounce,
    "check": _check,
    "noise": _noise,
    "noise-comparison": _noise_comparison,
    "incident": _incident,
    "floor": _floor,
    "floor-sizes": _floor_sizes,
    "floor-comparison": _floor_comparison,
    "floor-fit": _floor_fit,
    "floor-pcie": _pcie,
    "floor-pcie-primitives": _primitives,
    "floor-pcie-published": _published,
    "tune-list": _tune_list,
    "tune-check": _tune_check,
    "tune-changes": _tune_changes,
    "tune-status": _tune_status,
    "progress": _progress,
    "bounce-second": _bounce_second,
}
