"""The questions of docs/mesh-store.md, asked of meshes that Hairpin stored."""

import re
import shutil
import unittest
from pathlib import Path

import duckdb
import samples

STORE = Path(__file__).parent / "data/mesh-store"
PAGE = samples.ROOT / "docs/mesh-store.md"


def ask(number, folder=STORE):
    question = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]
    assert question.count("'meshes/*.parquet'") == 1
    return duckdb.sql(question.replace("meshes/", f"{folder}/")).fetchall()


def p50(mesh, *hosts):
    """The same without DuckDB's windows: row by row."""
    rows = duckdb.sql(f"SELECT a, b, upper_ns, n FROM read_parquet('{STORE}/{mesh}.parquet')").fetchall()
    times = sorted((upper, n) for a, b, upper, n in rows if {a, b} == set(hosts))
    total, up_to = sum(n for _, n in times), 0
    for upper, n in times:
        up_to += n
        if up_to * 2 >= total:
            return upper, total


class Questions(samples.InFolder):
    def test_the_pair_that_got_slower_is_found_whatever_its_ranks(self):
        found = ask(0)
        self.assertEqual([row[:2] for row in found], [("n2", "n5")])
        (_, _, path, before, now, ratio, p99_before, p99_now) = found[0]
        self.assertEqual((path, before, now), ("tcp:block/tcp:block", p50("mesh-1", "n2", "n5")[0], p50("mesh-2", "n2", "n5")[0]))
        self.assertAlmostEqual(ratio, now / before, delta=0.005)
        self.assertAlmostEqual(ratio, 40_000 / 25_250, delta=0.02)
        self.assertEqual((p99_before, p99_now), (None, None), "800 round trips are too few for p99")

    def test_a_pair_over_all_meshes(self):
        found = ask(1)
        self.assertEqual([row[2:] for row in found], [p50("mesh-1", "n2", "n5"), p50("mesh-2", "n2", "n5")])
        self.assertEqual((found[1][0] - found[0][0]).days, 8)

    def test_no_older_mesh_is_an_empty_answer(self):
        shutil.copy(STORE / "mesh-2.parquet", self.folder)
        self.assertEqual(ask(0, self.folder), [])


if __name__ == "__main__":
    unittest.main()
