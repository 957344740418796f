"""Without pandas and matplotlib: what needs them says so in one line."""

import unittest

import samples

import hairpin


class Bare(unittest.TestCase):
    def test_frames_and_pictures_say_what_to_install(self):
        for source in ("run-1.json", "older.jsonl"):
            record = hairpin.load(samples.DATA / source)
            for table in ("rows", "blocks", "series", "histogram"):
                with self.assertRaisesRegex(ImportError, r'^.*pip install "hairpin\[pandas\]".*$'):
                    getattr(record, table)
            with self.assertRaisesRegex(ImportError, r'^.*pip install "hairpin\[plot\]".*$'):
                record.plot()


if __name__ == "__main__":
    unittest.main()
