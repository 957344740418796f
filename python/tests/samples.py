"""Records of every kind, and the command beside the interpreter that runs the tests."""

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "crates/record/tests/data"
#: Records of a demo, of a run that emulates a NIC, and of one with a thousand million samples.
REPORT = ROOT / "crates/report/tests/data"
#: As pip installs it, else as it was built.
COMMAND = shutil.which("hairpin", path=sysconfig.get_path("scripts")) or os.environ.get("HAIRPIN_COMMAND", "")

#: What prints a record of the kinds that no store keeps.
PRINTED = {
    "floor": ["floor", "--link-rate", "10G", "--cable", "twinax:3m", "--nic", "niq"],
    "floor-sizes": ["floor", "--link-rate", "10G", "--nic", "niq", "--sizes", "1..2048x2"],
    "floor-comparison": ["floor", "--link-rate", "10G", "--nic", "niq", "--compare", "dma"],
    "floor-pcie-published": ["floor", "pcie", "--published"],
    "tune-list": ["tune", "list"],
    "tune-check": ["tune", "check"],
    "tune-status": ["tune", "status"],
}


def hairpin(*arguments, **environment):
    """What the command prints."""
    done = subprocess.run([COMMAND, *arguments], stdout=subprocess.PIPE, check=True, env={**os.environ, **environment})
    return done.stdout.decode()


def older():
    """A record of each kind in the store, as the first version wrote it."""
    return [json.loads(line) for line in (DATA / "older.jsonl").read_text().splitlines()]


def split():
    """Hosts and wire by stamps, each part apart."""
    times = run()["results"][0]["rtt_ns"]
    names = "client-out wire server-in turn-around server-out client-in client server hosts beyond".split()
    counts = "transactions complete missing impossible late twice unknown".split()
    ways = [("client", "out"), ("client", "in"), ("server", "in"), ("server", "out")]
    return {
        "rtt_ns": times,
        "parts": [{"part": name, "ns": times, "histogram": "", "typical_ns": 1.0} for name in names],
        "typical": {"count": 1, "from_ns": 1, "to_ns": 1, "rtt_ns": 1.0},
        "stamps": [
            {"side": side, "way": way, "layer": "hardware" if side == "client" else "software", "place": "nic"}
            | {"wanted": 1, "hardware": 1, "software": 1, "why": ""}
            for side, way in ways
        ],
        "counts": dict.fromkeys(counts, 1),
        "impossible": [],
        "every": 1,
        "blocks": 1,
        "blocks_rejected": 1,
    }


def one_way():
    """Both ways of a round trip apart."""
    times = dict.fromkeys(("count", "min", "mean", "p50", "p90", "p99", "p99.9", "max"), 1)
    counts = dict.fromkeys(("readings", "unmatched", "blocks_rejected", "negative", "impossible"), 1)
    ways = {name: times for name in ("request_ns", "reply_ns", "asymmetry_ns")}
    return {**ways, **counts, "bound_ns": 1.5, "parts": [], "source": "one", "client": None, "server": None}


def filled():
    """The same with fields that only later versions write, and no number twice: no column may show another's."""

    def anew(value, numbers):
        if isinstance(value, dict):
            return {name: anew(item, numbers) for name, item in value.items()}
        if isinstance(value, list):
            return [anew(item, numbers) for item in value]
        # None of a thing stays none.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value == 0:
            return value
        return next(numbers) + (0.5 if isinstance(value, float) else 0)

    for record in [*older(), run()]:
        for result in record.get("results", []):
            for rate in result.get("rates", []):
                rate["stalls"] = {"count": 1, "total_ns": 1, "share": 0.5}
                rate["split"] = split()
                rate["bulk"] = {"bytes": 1, "duration_ns": 1, "bits_per_s": 1.0}
                rate.update(dict.fromkeys(("unanswered", "left_out", "wall_ns", "repeat"), 1))
            if record["schema"] == "hairpin.run/1":
                result.update(split=split(), one_way=one_way())
            if "offered" in result:
                result.update(loses_per_s=1.0)
                result["offered"].update(
                    asked_per_s=1.0, cpu={**result["offered"]["cpu"], "server": result["offered"]["cpu"]["client"]}
                )
            if "typical" in result:
                # Without slow ones there is no mean of them.
                record["results"] = [result, {**result, "slow": dict.fromkeys(result["slow"], 0)}]
        for cell in record.get("cells", []):
            cell.update(typical={**cell["figures"], "p50_ns": None}, bulk_streams=1, bulk_bits_per_s=1e9)
        for path in record["paths"] if record["schema"] == "hairpin.tune-try/1" else []:
            path["together"] = {**path["alone"], "comparisons": 2 * path["alone"]["comparisons"]}
            record["winners"] = ["one", "other"]
        for estimate in [found for comparison in record.get("comparisons", []) for found in comparison["figures"]][:1]:
            del estimate["base"], estimate["value"]
        if record["schema"] == "hairpin.check/1":
            latency = {name: 1.0 for name in ("own_ns", "turnaround_ns", "sum_ns", "measured_ns", "error_ns")}
            record.update(latencies=[{**latency, "declared_ns": 1, "verdict": "failed"}], latency_bound_ns=1)
        yield anew(record, itertools.count(100))


def run():
    """A run with four rows of different paths."""
    return json.loads((DATA / "run-1.json").read_text())


def kept():
    """Every record that a measurement left in the tests' data: its path and text, one after the other where a file has several."""
    for path in sorted(path for folder in (ROOT / "python/tests/data", REPORT) for path in folder.iterdir() if path.is_file()):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        for line in text.splitlines() if ".jsonl" in path.suffixes else [text]:
            if not isinstance(json.loads(line), dict):
                continue
            schema = str(json.loads(line).get("schema"))
            if (ROOT / "docs/schema" / (schema.replace("/", "-") + ".json")).exists():
                yield path, line


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def store(self, run_id, record):
        """A store with a run in it: the environment that names it."""
        self.write(f"runs/{run_id}/run.json", json.dumps(record))
        return {"HAIRPIN_RUNS": str(self.folder / "runs")}
