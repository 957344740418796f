"""Histograms against the quantiles that stand beside them, and against forged ones."""

import base64
import io
import json
import math
import struct
import time
import unittest
import zlib

import samples

import hairpin
from hairpin.histogram import LARGEST, decode, percentiles


def encoded(counts, digits=3, lowest=1, highest=60_000_000_000, cookie=0x1C849313, length=None):
    plain = struct.pack(">IIIIQQd", cookie, len(counts) if length is None else length, 0, digits, lowest, highest, 1.0) + counts
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()


class Quantiles(unittest.TestCase):
    def check(self, steps, exact):
        self.assertEqual(
            (steps[-1]["value_ns"], steps[-1]["count"], steps[-1]["percentile"]), (exact["max"], exact["count"], 100)
        )
        self.assertGreaterEqual(steps[0]["value_ns"], exact["min"])
        for name in ("p50", "p90", "p99", "p99.9"):
            if exact[name] is not None:
                rank = math.ceil(float(name[1:]) / 100 * exact["count"] - 1e-6)
                self.assertEqual(next(step for step in steps if step["count"] >= rank)["value_ns"], exact[name], name)
        for before, step in zip(steps, steps[1:]):
            self.assertLess(before["value_ns"], step["value_ns"])
        self.assertTrue(all(step["count"] + step["above"] == exact["count"] for step in steps))

    def test_every_row_of_every_run(self):
        rows = 0
        for path, text in samples.kept():
            run = json.loads(text)
            if run["schema"] != "hairpin.run/1":
                continue
            table = hairpin.load(io.StringIO(text)).table("histogram")
            for row, result in enumerate(run["results"]):
                if result["rtt_ns"]["count"]:
                    self.check([step for step in table if step["row"] == row and step["of"] == "rtt"], result["rtt_ns"])
                    rows += 1
        self.assertGreater(rows, 50)

    def test_the_other_kinds(self):
        records = {record.kind: record for record in hairpin.load(samples.DATA / "older.jsonl")}
        load = records["load"]
        rate = load.json["results"][0]["rates"][0]
        for of in ("rtt_from_due", "rtt_from_sent", "lateness", "lateness_undisturbed"):
            self.check([step for step in load.table("histogram") if step["of"] == of], rate[f"{of}_ns"])
        explain = records["explain"]
        (stage,) = explain.json["results"][0]["stages"]
        steps = explain.table("histogram")
        self.check(steps, stage["ns"])
        self.assertEqual({(step["row"], step["of"]) for step in steps}, {(0, "send call + qdisc")})
        attached = records["explain-attached"]
        self.assertEqual({attached.table()[step["row"]]["stage"] for step in attached.table("histogram")}, {"sum"})
        self.assertEqual({step["of"] for step in records["floor-pcie"].table("histogram")}, {"read"})

    def test_a_thousand_million_samples_in_well_under_a_second(self):
        path = samples.REPORT / "a-billion.json"
        (result,) = hairpin.load(path).json["results"]
        began = time.process_time()
        steps = percentiles(result["histogram"])
        self.assertLess(time.process_time() - began, 1)
        self.assertEqual(steps[-1]["count"], result["rtt_ns"]["count"])


class Forged(unittest.TestCase):
    def test_numbers_of_every_length(self):
        self.assertEqual(decode(encoded(b"\x04")), [(0, 2)])
        # Zigzag: 3 is -2, two empty counts; the next count is that of 2 ns.
        self.assertEqual(decode(encoded(b"\x03\x02")), [(2, 1)])
        self.assertEqual(decode(encoded(b"\x80\x01")), [(0, 64)])
        self.assertEqual(decode(encoded(b"\xfe" + 7 * b"\xff" + b"\x7f")), [(0, (1 << 62) - 1)])

    def test_values_beyond_the_exact_ones_share_a_count(self):
        def at(index):
            zeros, number = 2 * index - 1, b""
            while zeros >= 0x80:
                number, zeros = number + bytes([zeros & 0x7F | 0x80]), zeros >> 7
            return decode(encoded(number + bytes([zeros]) + b"\x02"))[0][0]

        self.assertEqual([at(index) for index in (1, 2047, 2048, 3071, 3072)], [1, 2047, 2049, 4095, 4099])

    def test_what_is_refused(self):
        cases = {
            "larger than": "A" * (LARGEST + 1),
            "unpacked": "***",
            "cannot be unpacked": base64.b64encode(b"12345678not zlib").decode(),
            "cut off, or larger": encoded(bytes(64 << 20)),
            "does not begin": base64.b64encode(b"12345678" + zlib.compress(bytes(50))).decode(),
            "not what it claims": encoded(b"\x02", length=1 << 31),
            "with three digits": encoded(b"\x02", digits=5),
            "inside a number": encoded(b"\x80"),
            "beyond its range": encoded(b"\xff\xff\xff\xff\x0f\x02"),
        }
        for why, text in cases.items():
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                decode(text)
        with self.assertRaisesRegex(ValueError, "not what it claims"):
            decode(encoded(b"\x02", cookie=1))

    def test_nothing_recorded(self):
        self.assertEqual(percentiles(encoded(b"")), [])


if __name__ == "__main__":
    unittest.main()
