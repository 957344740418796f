"""DataFrames, with pandas."""

import io
import unittest

import pandas
import samples

import hairpin


class Frames(samples.InFolder):
    def test_rows_are_what_pandas_reads_from_the_csv(self):
        for path, text in samples.kept():
            file = self.write("r.json", text)
            text = io.StringIO(samples.hairpin("runs", "export", file, "--csv"))
            expected = pandas.read_csv(text, keep_default_na=False, na_values=[""])
            rows = hairpin.load(file).rows.replace("", None)
            self.assertEqual(list(rows.columns), list(expected.columns))
            for name in rows:
                with self.subTest(path.name, column=name):
                    own, read = rows[name].dropna(), expected[name].dropna()
                    # read_csv may round the last digit of a number.
                    pandas.testing.assert_series_equal(own, read, check_dtype=False, rtol=1e-12)
                    if pandas.api.types.is_numeric_dtype(expected[name]) and expected[name].notna().any():
                        self.assertTrue(pandas.api.types.is_numeric_dtype(rows[name]), rows[name].dtype)

    def test_what_is_unknown_everywhere_is_a_number(self):
        rows = hairpin.load(samples.REPORT / "what-if.json").rows
        self.assertTrue(rows["pace_per_s"].isna().all())
        self.assertEqual(rows["pace_per_s"].dtype, float)

    def test_every_table_has_its_columns_even_without_rows(self):
        for record in hairpin.load(samples.DATA / "older.jsonl"):
            for name in ("rows", "blocks", "series", "histogram"):
                frame = getattr(record, name)
                self.assertEqual((list(frame.columns), len(frame)), (list(record._table(name).columns), len(record.table(name))))

    def test_several_records_below_each_other(self):
        demo = hairpin.load(samples.REPORT / "demo.jsonl")
        self.assertEqual(demo.rows.groupby("record").size().to_list(), [len(record.rows) for record in demo])
        self.assertEqual(demo.rows["rtt_p50_ns"].notna().sum(), sum(record.rows["rtt_p50_ns"].notna().sum() for record in demo))


if __name__ == "__main__":
    unittest.main()
