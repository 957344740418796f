"""Pictures, with matplotlib: what they say."""

import io
import json
import unittest

import matplotlib

matplotlib.use("Agg")

import samples
from matplotlib import pyplot

import hairpin

RECORDS = {record.kind: record for record in hairpin.load(samples.DATA / "older.jsonl")}


def drawn(ax):
    """All words of a picture that was drawn to its end."""
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()] if legend else []
    places = [label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    return " | ".join([ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *names, *places]).replace("\n", " ")


class Pictures(unittest.TestCase):
    def tearDown(self):
        pyplot.close("all")

    def says(self, words, *parts):
        for part in parts:
            self.assertIn(part, words)

    def test_a_run(self):
        run = hairpin.load(samples.DATA / "run-1.json")
        words = drawn(run.plot())
        self.says(
            words,
            "RTT by percentile, loopback lo",
            "2026-03-02",
            "RTT, us",
            "99.9 %",
            "udp:spin,sndbuf=4M",
            "64 B, 40000 samples",
            "64 B -> 1024 B",
        )
        self.assertNotIn("emulated", words)
        half = drawn(run.plot(hrt=True))
        self.says(half, "RTT/2 (not one-way) by percentile", "RTT/2, not one-way, us")

    def test_half_is_half(self):
        run = RECORDS["run"]
        (whole,), (half,) = run.plot().get_lines(), run.plot(hrt=True).get_lines()
        self.assertEqual(whole.get_ydata()[-1], run.json["results"][0]["rtt_ns"]["max"] / 1000)
        self.assertEqual([2 * y for y in half.get_ydata()], list(whole.get_ydata()))

    def test_what_was_emulated_and_how_it_ended(self):
        self.says(drawn(hairpin.load(samples.REPORT / "what-if.json").plot()), "emulated")
        early = {**samples.run(), "error": "the peer says $\\no$"}
        self.says(drawn(hairpin.load(io.StringIO(json.dumps(early))).plot()), "ended with an error: the peer says $\\no$")

    def test_the_other_kinds(self):
        self.says(drawn(RECORDS["load"].plot()), "RTT from due, us", "1000/s offered, 1947 samples")
        self.says(drawn(RECORDS["floor-pcie"].plot()), "read of 4 bytes, us", "0000:3b:00.0")
        self.says(drawn(RECORDS["compare"].plot()), "loopback lo", "udp:block / udp:spin RTT p50, 19 pairs", "intervals of 99 %")
        self.says(drawn(RECORDS["sweep"].plot()), "RTT p50", "veth hairpin0", "wait: on / off, 80 rounds")
        self.says(drawn(RECORDS["tune-try"].plot()), "RTT p50", "cpu_dma_latency_us=0", "18 pairs")
        self.says(drawn(RECORDS["stream"].plot()), "frames per second", "veth", "inject 64 B, without loss, 74560 frames")
        self.says(drawn(RECORDS["explain"].plot()), "RTT by stage", "us", "client: send call + qdisc", "27661 of 128673 traced")
        self.says(drawn(RECORDS["explain-attached"].plot()), "194 transactions", "client: qdisc", "%")
        floor = hairpin.load(io.StringIO(samples.hairpin(*samples.PRINTED["floor-comparison"], "--json")))
        self.says(drawn(floor.plot()), "floor of one way", "nothing was measured", "cable", "niq, ", "dma, ")

    def test_frames_that_nobody_counted_are_drawn_as_offered(self):
        stream = json.loads(json.dumps(RECORDS["stream"].json))
        row = stream["results"][0]
        row["lossless"] = row["offered"]["delivered"] = row["offered"]["delivered_per_s"] = None
        ax = hairpin.load(io.StringIO(json.dumps(stream))).plot()
        self.assertEqual(ax.patches[0].get_width(), row["offered"]["offered_per_s"])
        self.says(drawn(ax), "arrivals not counted")

    def test_kinds_without_a_picture_and_records_with_nothing_to_draw(self):
        for kind in ("check", "bounce", "floor-pcie-primitives"):
            with self.assertRaisesRegex(hairpin.NothingToDraw, f"the kind {kind} has no picture"):
                RECORDS[kind].plot()
        with self.assertRaises(TypeError):
            RECORDS["compare"].plot(hrt=True)
        for empty in ({**samples.run(), "results": []}, {**RECORDS["compare"].json, "comparisons": []}):
            with self.assertRaises(hairpin.NothingToDraw):
                hairpin.load(io.StringIO(json.dumps(empty))).plot()

    def test_axes_of_the_caller_and_several_records(self):
        ax = pyplot.figure().add_subplot()
        self.assertIs(RECORDS["run"].plot(ax), ax)
        self.assertEqual(len(hairpin.load(samples.REPORT / "demo.jsonl").plot()), 2)

    def test_every_kept_record(self):
        for path, text in samples.kept():
            record = hairpin.load(io.StringIO(text))
            try:
                drawn(record.plot())
            except hairpin.NothingToDraw:
                self.assertIn(record.kind, ("check", "floor-pcie-primitives"), path)
            pyplot.close("all")


if __name__ == "__main__":
    unittest.main()
