"""Records of every kind, and the command beside the interpreter that runs the tests."""

import gzip
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
#: As pip installs it.
COMMAND = shutil.which("hairpin", path=sysconfig.get_path("scripts")) or ""

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


def run():
    """A run with four rows of different paths."""
    return json.loads((DATA / "run-1.json").read_text())


def kept():
    """Every record below runs/: its path and text, one after the other where a file has several."""
    for path in sorted((ROOT / "runs").rglob("*.gz")):
        text = gzip.decompress(path.read_bytes()).decode()
        for line in text.splitlines() if path.name.endswith(".jsonl.gz") else [text]:
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
