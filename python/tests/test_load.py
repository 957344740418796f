"""What load takes, and what it refuses."""

import copy
import gzip
import io
import json
import os
import random
import tracemalloc
import unittest
from unittest import mock

import samples

import hairpin

TABLES = ("rows", "blocks", "series", "histogram")


def all_tables(record):
    return {name: record.table(name) for name in TABLES}


class Sources(samples.InFolder):
    def test_a_file_packed_or_not_and_an_open_one(self):
        text = json.dumps(samples.run())
        plain, packed = self.write("a.json", text), self.write("b.json.gz", gzip.compress(text.encode()))
        with open(plain) as words, open(packed, "rb") as data:
            for source in (plain, packed, samples.DATA / "run-1.json", words, data, io.BytesIO(text.encode())):
                record = hairpin.load(source)
                self.assertEqual((record.kind, len(record.table()), record.json), ("run", 4, samples.run()))

    def test_several_records_in_one_file(self):
        records = hairpin.load(str(samples.DATA / "older.jsonl"))
        self.assertEqual([record.json for record in records], samples.older())
        self.assertEqual({row["record"] for row in records.table()}, set(range(len(samples.older()))))
        # Over several lines each, as --json prints them.
        pretty = self.write("demo.json", "\n".join(json.dumps(record, indent=2) for record in (samples.run(), samples.run())))
        demo = hairpin.load(pretty)
        self.assertEqual(len(demo.table("blocks")), 2 * len(demo[0].table("blocks")))

    def test_a_run_of_the_store_by_its_folder_its_id_and_its_age(self):
        name = "20260302-094107-1a2b"
        store = self.store(name, samples.run())
        folder = hairpin.load(self.folder / "runs" / name)
        self.assertEqual((folder.run, folder.table()[0]["run"]), (name, name))
        with mock.patch.dict(os.environ, store):
            for word in (name, "latest", "-1", "2026"):
                loaded = hairpin.load(word)
                self.assertEqual((loaded.json["results"], loaded.run), (samples.run()["results"], name), word)
            with self.assertRaisesRegex(hairpin.RecordError, "latest~7: hairpin: "):
                hairpin.load("latest~7")

    def test_lines_of_a_stream_stand_before_their_record(self):
        line = {"schema": "hairpin.progress/1", "path": "udp", "at_ns": 5, "thread": 0, "interval": {"rtt_ns": {"p50": 7}}}
        stream = "".join(json.dumps(value) + "\n" for value in (line, {**line, "at_ns": 9}, samples.run()))
        record = hairpin.load(self.write("stream.jsonl", stream))
        self.assertEqual((record.kind, [line["at_ns"] for line in record.lines]), ("run", [5, 9]))
        # A killed run leaves no record.
        killed = hairpin.load(self.write("killed.jsonl", stream[: stream.index('{"schema": "hairpin.run')]))
        self.assertEqual((killed.kind, [row["at_ns"] for row in killed.table()]), ("progress", [5, 9]))
        self.assertEqual([row["rtt_p50_ns"] for row in killed.table("series")], [7, 7])

    def test_lines_belong_to_the_record_after_them(self):
        line = {"schema": "hairpin.progress/1", "path": "udp"}
        stream = [line, line, samples.run(), line, samples.run()]
        records = hairpin.load(self.write("streams.jsonl", "".join(map(json.dumps, stream))))
        self.assertEqual([len(record.lines) for record in records], [2, 1])

    def test_lines_after_the_last_record_are_one_too(self):
        line = {"schema": "hairpin.progress/1", "path": "udp", "at_ns": 5}
        records = hairpin.load(self.write("killed.jsonl", "".join(map(json.dumps, [samples.run(), line, line]))))
        self.assertEqual([(record.kind, len(record.lines)) for record in records], [("run", 0), ("progress", 2)])

    def test_seconds_of_a_bouncing_are_its_series(self):
        bounce = next(record for record in samples.older() if record["schema"] == "hairpin.bounce/1")
        frames = {**bounce["frames"], "received": 10, "tx_ring_full": 2, "lost": {"rx_dropped": 3}, "kept": {"short": 4}}
        second = {"schema": "hairpin.bounce-second/1", "at_ns": 10, "frames": frames}
        record = hairpin.load(self.write("bounce.jsonl", json.dumps(second) + json.dumps(bounce)))
        (row,) = record.table("series")
        self.assertEqual((row["received"], row["lost"], row["kept"]), (10, 5, 4))

    def test_each_line_of_a_file_of_incidents_is_a_row(self):
        cause = {"cause": "run queue wait", "who": "cc1 (pid 7)", "count": 1, "lost_ns": 640, "advice": ""}
        event = {"at_ns": 5, "name": "net_dev_start_xmit", "side": "client", "cpu": 0, "detail": ""}
        one = {"schema": "hairpin.incident/1", "at": "2026-11-28T19:12:17Z", "path": "udp:block/udp:block", "peer": "loopback"}
        one |= {"rtt_ns": 900, "above_ns": 300, "typical_rtt_ns": 40, "sequence": 3, "dropped": 0, "stages": []}
        lines = [one | {"causes": [cause, {**cause, "lost_ns": 2}], "events": [event]}, one | {"causes": [], "events": []}]
        records = hairpin.load(self.write("incidents.jsonl", "\n".join(map(json.dumps, lines))))
        rows = [(row["rtt_ns"], row["cause"], row["cause_ns"]) for row in records.table()]
        self.assertEqual(rows, [(900, "run queue wait", 640), (900, None, None)])
        self.assertEqual([(row["at_ns"], row["event"]) for row in records.table("series")], [(5, "net_dev_start_xmit")])

    def test_every_published_schema_is_known(self):
        published = {path.name for path in (samples.ROOT / "docs/schema").glob("hairpin.*.json")}
        self.assertEqual(published, {f"hairpin.{kind}-1.json" for kind in hairpin.record.ROWS})

    def test_every_kept_record_and_every_table_of_it(self):
        seen = set()
        for path, text in samples.kept():
            record = hairpin.load(io.StringIO(text))
            seen.add(record.kind)
            self.assertTrue(record.table(), path)
            all_tables(record)
            self.assertIn("<table>", record._repr_html_())
        self.assertLessEqual({"run", "explain", "load", "sweep", "check"}, seen)


class Refused(samples.InFolder):
    def refused(self, content, why, name="x.json"):
        path = self.write(name, content)
        with self.assertRaises(hairpin.RecordError) as caught:
            hairpin.load(path)
        self.assertTrue(str(caught.exception).startswith(f"{path}: "), caught.exception)
        self.assertRegex(str(caught.exception), why)

    def test_what_is_no_record(self):
        self.refused("", "empty")
        self.refused("hello", "not JSON")
        self.refused(b"\xff\xfe", "not JSON")
        self.refused("[" * 100_000, "nested too deep")
        self.refused("9" * 10_000, "not JSON|no field")
        for text in ("3", "[1]", "{}", '{"schema": 3}'):
            self.refused(text, 'no field "schema"')
        self.refused('{"schema": "other.thing/1"}', "does not know")
        self.refused('{"schema": "hairpin.run/2"}', "knows version 1: pip install --upgrade")

    def test_what_is_cut_off(self):
        text = json.dumps(samples.run())
        for length in (1, 100, len(text) // 2, len(text) - 1):
            self.refused(text[:length], "cut off")
        packed = gzip.compress(text.encode())
        for length in (5, len(packed) // 2, len(packed) - 1):
            self.refused(packed[:length], "cut off", "x.json.gz")

    def test_what_is_not_there(self):
        for name in (str(self.folder / "none.json"), str(self.folder), "no-such-file"):
            with self.assertRaisesRegex(hairpin.RecordError, "No such file"):
                hairpin.load(name)

    def test_what_cannot_be_looked_for(self):
        # As a folder that is closed to this user, which root never meets.
        for name in ("x" * 5000, str(self.folder / ("x" * 5000))):
            with self.assertRaisesRegex(hairpin.RecordError, "File name too long"):
                hairpin.load(name)

    def test_a_bomb_of_gzip(self):
        bomb = gzip.compress(bytes(64 << 20))
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with mock.patch.object(hairpin.read, "LARGEST", 1 << 20):
            self.refused(bomb, "more than 1 MiB", "x.json.gz")
        self.assertLess(tracemalloc.get_traced_memory()[1], 16 << 20)

    def test_a_record_that_lacks_its_parts(self):
        for record in samples.older():
            self.refused(json.dumps({"schema": record["schema"]}), f"it says that it is {record['schema']}, and is not")
        self.refused('{"schema": "hairpin.run/1", "results": [3]}', '"results" is not a list of objects')

    def test_a_histogram_that_is_none(self):
        record = samples.run()
        record["results"][1]["histogram"] = "AAAA"
        loaded = hairpin.load(self.write("h.json", json.dumps(record)))
        self.assertEqual(len(loaded.table()), 4)
        with self.assertRaisesRegex(hairpin.RecordError, "h.json.*the histogram is cut off"):
            loaded.table("histogram")

    def test_a_number_beyond_all_numbers(self):
        sweep = next(record for record in samples.older() if record["schema"] == "hairpin.sweep/1")
        sweep["cells"][0]["bulk_bits_per_s"] = 10**400
        self.refused(json.dumps(sweep), "too large")

    def test_anything_is_a_record_or_an_error(self):
        """Parts of records replaced by other values, always the same ones."""
        chance = random.Random(1)
        strange = [None, 3, -1.5, 10**400, "x", [], [None], {}, {"a": 1}, [[1]], True, "\x00"]

        def replace(value, depth=0):
            if chance.random() < 0.01 * depth:
                return chance.choice(strange)
            if isinstance(value, dict):
                return {name: replace(item, depth + 1) for name, item in value.items()}
            return [replace(item, depth + 1) for item in value] if isinstance(value, list) else value

        for record in samples.older() * 60:
            changed = {**replace(copy.deepcopy(record)), "schema": record["schema"]}
            try:
                loaded = hairpin.load(io.StringIO(json.dumps(changed)))
                all_tables(loaded)
                loaded._repr_html_()
            except hairpin.RecordError:
                pass


class Heads(samples.InFolder):
    def load(self, **changes):
        return hairpin.load(self.write("x.json", json.dumps({**samples.run(), **changes})))

    def test_unknown_fields_are_ignored(self):
        record = samples.run()
        record["results"][0]["later"] = {"p50": 1}
        self.assertEqual(self.load(results=record["results"], later=[1]).table(), self.load().table())

    def test_how_a_run_ended(self):
        self.assertEqual((self.load().error, self.load().interrupted, self.load().ended), (None, False, ""))
        early = self.load(interrupted=True)
        self.assertEqual((early.interrupted, early.ended, len(early.table())), (True, "interrupted", 4))
        failed = self.load(error="the <peer> is gone")
        self.assertEqual((failed.error, failed.ended), ("the <peer> is gone", "ended with an error: the <peer> is gone"))
        self.assertIn("the &lt;peer&gt; is gone", failed._repr_html_())

    def test_the_head(self):
        head = self.load().head
        self.assertEqual(
            (head["schema"], head["tool"], head["started"]), ("hairpin.run/1", "hairpin 0.1.0", "2026-03-02T09:41:07Z")
        )
        self.assertIn("run, 4 rows", repr(self.load()))

    def test_there_are_four_tables(self):
        with self.assertRaisesRegex(ValueError, "rows, blocks, series, histogram"):
            self.load().table("lines")


if __name__ == "__main__":
    unittest.main()
