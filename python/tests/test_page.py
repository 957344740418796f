"""The examples of docs/python.md."""

import gzip
import io
import os
import re
import unittest
from contextlib import redirect_stdout
from unittest import mock

import matplotlib

matplotlib.use("Agg")

import samples


class Page(samples.InFolder):
    def test_its_examples_run(self):
        store = self.store("20260302-094107-1a2b", samples.run())
        self.write("demo.jsonl.gz", gzip.compress((samples.REPORT / "demo.jsonl").read_bytes()))
        page = (samples.ROOT / "docs/python.md").read_text()
        examples = re.findall("```python\n(.*?)```", page, re.S)
        self.assertGreater(len(examples), 3)
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        names = {}
        with mock.patch.dict(os.environ, store):
            for example in examples:
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(example, names)
                # What a line prints stands behind it.
                expected = "".join(line + "\n" for line in re.findall(r"print\(.*?  # (.*)", example))
                self.assertEqual(printed.getvalue(), expected, example)


if __name__ == "__main__":
    unittest.main()
