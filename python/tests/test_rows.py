"""The rows are those of the command's CSV."""

import csv
import io
import json
import re
import unittest

import samples

import hairpin
from hairpin.parts import BLOCKS, HISTOGRAMS, SERIES
from hairpin.rows import ROWS


class SameAsCsv(samples.InFolder):
    maxDiff = None

    def same(self, record, text, but=()):
        """Names, order, and every cell: text as it is, numbers as numbers, an unknown one empty."""
        names, *lines = list(csv.reader(io.StringIO(text)))
        own = record._table("rows").columns
        self.assertEqual(names, list(own))
        self.assertEqual(len(lines), len(record.table()))
        for line, row in zip(lines, record.table()):
            for name, cell, value in zip(own, line, row.values()):
                if name in but:
                    continue
                expected = "" if value is None else value
                found = float(cell) if cell and isinstance(value, (int, float)) else cell
                self.assertEqual(found, expected, f"{record!r}: {name}")

    def exported(self, record):
        path = self.write("r.json", json.dumps(record))
        self.same(hairpin.load(path), samples.hairpin("runs", "export", path, "--csv"))

    def test_each_kind_as_the_first_version_wrote_it(self):
        for record in [*samples.older(), samples.run()]:
            with self.subTest(record["schema"]):
                self.exported(record)

    def test_no_column_shows_another(self):
        for record in samples.filled():
            with self.subTest(record["schema"]):
                self.exported(record)

    def test_records_of_real_runs(self):
        for path, text in samples.kept():
            with self.subTest(path.name):
                self.exported(json.loads(text))

    def test_a_stored_run_has_its_id(self):
        name = "20260302-094107-1a2b"
        store = self.store(name, samples.run())
        text = samples.hairpin("runs", "export", name, "--csv", **store)
        self.same(hairpin.load(self.folder / "runs" / name), text)
        self.assertIn(name, text)

    def test_kinds_that_the_store_does_not_keep(self):
        # Another reading of the host may find other values.
        but = {"tune-list": ("now", "unread"), "tune-check": ("now", "better")}
        for kind, command in samples.PRINTED.items():
            with self.subTest(kind):
                record = hairpin.load(io.StringIO(samples.hairpin(*command, "--json")))
                self.assertEqual(record.kind, kind)
                self.same(record, samples.hairpin(*command, "--csv"), but.get(kind, ()))

    def test_floors_with_ranges_and_of_each_class(self):
        for nics in (
            ["dna-82599"],
            ["sniffer10g"],
            ["sun-fire-6800"],
            ["dna-82599", "--compare", "sun-fire-6800"],
            ["niq", "--compare", "dna-82599"],
        ):
            command = ["floor", "--link-rate", "10G", "--nic", *nics]
            with self.subTest(nics):
                self.same(hairpin.load(io.StringIO(samples.hairpin(*command, "--json"))), samples.hairpin(*command, "--csv"))

    def test_changes_of_settings(self):
        change = {
            "knob": "timer_migration",
            "place": "/proc/sys/kernel/timer_migration",
            "from": "1",
            "to": "0",
            "outcome": "applied",
        }
        row = {"setting": "timer_migration", "was": "1", "is_to_be": "0", "outcome": "applied", "where": change["place"]}
        changes = {"schema": "hairpin.tune-changes/1", "action": "apply", "changes": [change], "notes": []}
        self.assertEqual(hairpin.load(io.StringIO(json.dumps(changes))).table(), [row])
        entry = {"id": 3, "state": "kept", "started": "2026-11-22T12:00:00Z", "command": ["hairpin", "tune"], "changes": [change]}
        status = {"schema": "hairpin.tune-status/1", "journal": "/j", "entries": [entry]}
        named = {"id": 3, "state": "kept", "started": "2026-11-22T12:00:00Z", "command": "hairpin tune", **row}
        self.assertEqual(hairpin.load(io.StringIO(json.dumps(status))).table(), [named])

    def test_settings_put_back_were_what_they_were_changed_to(self):
        change = {"knob": "rx_usecs", "place": "rx-usecs of eth0", "from": "8", "to": "0", "outcome": "reverted"}
        reverted = {"schema": "hairpin.tune-changes/1", "action": "revert", "changes": [change], "notes": []}
        (row,) = hairpin.load(io.StringIO(json.dumps(reverted))).table()
        self.assertEqual((row["was"], row["is_to_be"]), ("0", "8"))

    def test_visits_that_measured_stages_are_no_round_trips(self):
        mesh = next(record for record in samples.older() if record["schema"] == "hairpin.mesh/1")
        pair = next(pair for pair in mesh["pairs"] if pair["visits"])
        stage = {"name": "wire", "side": "client", "direction": "request", "typical_ns": 1.0}
        pair["visits"].append({**pair["visits"][0], "missing": None, "stages": [stage], "transactions": 1000})
        self.exported(mesh)

    def test_facts_of_the_host_in_words(self):
        settings = {row["setting"]: row for row in hairpin.load(io.StringIO(samples.hairpin("tune", "list", "--json"))).table()}
        found = {row["setting"]: row for row in csv.DictReader(io.StringIO(samples.hairpin("tune", "list", "--csv")))}
        for name in ("kernel_release", "available_clocksources", "idle_states"):
            self.assertEqual(settings[name]["now"] or "", found[name]["now"])

    def test_lines_through_a_run_over_sizes(self):
        path, text = next((path, text) for path, text in samples.kept() if path.name == "what-if.json")
        file = self.write("what-if.json", text)
        fit = hairpin.load(io.StringIO(samples.hairpin("floor", "--fit", file, "--json")))
        self.assertEqual((fit.kind, len(fit.table()) > 0), ("floor-fit", True))
        self.same(fit, samples.hairpin("floor", "--fit", file, "--csv"))


class Parts(unittest.TestCase):
    def test_every_kind_is_in_the_table_of_the_page(self):
        page = (samples.ROOT / "docs/python.md").read_text()
        table = {
            kind for line in re.findall(r"(?m)^\| (`.*)", page) for kind in re.findall("`([a-z][a-z-]+)`", line.split("|")[0])
        }
        self.assertLessEqual(table, {*ROWS})
        self.assertLessEqual({*BLOCKS, *HISTOGRAMS, *SERIES}, table)

    def test_blocks_and_series_of_a_run(self):
        record, run = hairpin.load(samples.DATA / "run-1.json"), samples.run()
        for table, field in (("blocks", "blocks"), ("series", "series")):
            parts = [(row, part) for row, of in enumerate(run["results"]) for part in of[field]]
            lines = record.table(table)
            self.assertEqual(
                [(line["row"], line["at_ns"], line["rtt_p50_ns"]) for line in lines],
                [(row, part["at_ns"], part["p50"]) for row, part in parts],
            )
            self.assertEqual({line["path"] for line in lines}, {of["path"] for of in run["results"] if of[field]})

    def test_the_first_thread_has_a_number_and_sound_clocks_are_told(self):
        run = samples.run()
        run["results"][0]["blocks"] = [{"at_ns": 0, "count": 1}, {"at_ns": 1, "count": 1, "thread": 1, "clock_suspect": True}]
        run["results"][0]["series"] = [{"at_ns": 0, "count": 1, "max": 1}]
        record = hairpin.load(io.StringIO(json.dumps(run)))
        found = [(block["thread"], block["clock_suspect"]) for block in record.table("blocks") if block["row"] == 0]
        self.assertEqual(found, [(0, False), (1, True)])
        self.assertEqual([point["thread"] for point in record.table("series") if point["row"] == 0], [0])

    def test_blocks_of_experiments(self):
        records = {record.kind: record for record in hairpin.load(samples.DATA / "older.jsonl")}
        compare = records["compare"].table("blocks")
        self.assertEqual(
            [(block["arm"], block["round"], block["rtt_p50_ns"]) for block in compare], [("A", 0, 3256.55), ("B", 0, 41512.0)]
        )
        self.assertEqual([block["given"] for block in records["tune-try"].table("blocks")], ["as it is", "cpu_dma_latency_us=0"])
        (cell,) = records["sweep"].table("blocks")
        self.assertEqual((cell["row"], cell["core_rtt_ns"]), (0, 63))

    def test_trials_of_a_stream_and_slow_transactions_of_a_server(self):
        records = {record.kind: record for record in hairpin.load(samples.DATA / "older.jsonl")}
        (trial,) = records["stream"].table("series")
        self.assertEqual((trial["frame_bytes"], trial["lost"]), (64, 0))
        (slow,) = records["explain-attached"].table("series")
        self.assertEqual((slow["cause"], slow["sum_ns"]), ("run queue wait", 164696))

    def test_events_of_slow_round_trips(self):
        explain = next(record for record in samples.older() if record["schema"] == "hairpin.explain/1")
        event = {"at_ns": -20, "name": "softirq", "detail": "NET_RX", "side": "client", "cpu": 1}
        explain["results"][0]["slowest"] = [{"rtt_ns": 900, "at_ns": 5, "cause": "softirq", "events": [event, event]}]
        lines = hairpin.load(io.StringIO(json.dumps(explain))).table("series")
        self.assertEqual(
            [(line["rank"], line["rtt_ns"], line["cause"], line["at_ns"], line["event"]) for line in lines],
            [(0, 900, "softirq", -20, "softirq")] * 2,
        )


if __name__ == "__main__":
    unittest.main()
