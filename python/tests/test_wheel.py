"""The wheel: its version, its size, and the machine that it says it is for."""

import os
import re
import struct
import sys
import unittest
import zipfile
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import samples

import hairpin

sys.path.insert(0, str(samples.ROOT / "python"))
import hatch_build


def elf(machine, *symbols):
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine) + b"".join(b"\0" + symbol for symbol in symbols)


class Wheel(unittest.TestCase):
    def test_its_version_is_the_workspaces(self):
        cargo = re.search(r'(?m)^version = "(.*)"$', (samples.ROOT / "Cargo.toml").read_text())[1]
        self.assertEqual((version("hairpin"), hairpin.__version__), (cargo, cargo))
        self.assertIn(cargo, samples.hairpin("--version"))

    def test_the_machine_is_read_from_the_command(self):
        self.assertEqual(hatch_build.platform(elf(62, b"GLIBC_2.2.5", b"GLIBC_2.28")), "manylinux_2_28_x86_64")
        self.assertEqual(hatch_build.platform(elf(183, b"GLIBC_2.17")), "manylinux_2_28_aarch64")
        self.assertEqual(hatch_build.platform(elf(62, b"GLIBC_2.34", b"GLIBC_2.4")), "linux_x86_64")
        for wrong in (b"", b"#!/bin/sh", elf(40), elf(62)[:18]):
            with self.assertRaisesRegex(SystemExit, "HAIRPIN_COMMAND"):
                hatch_build.platform(wrong)

    def test_a_wheel_without_a_command_says_what_to_do(self):
        hook = hatch_build.CommandHook(str(samples.ROOT / "python"), {}, None, None, "", "wheel")
        for path in ("", "/no/such/file"):
            with (
                mock.patch.dict(os.environ, HAIRPIN_COMMAND=path),
                self.assertRaisesRegex(SystemExit, "HAIRPIN_COMMAND.*cargo build"),
            ):
                hook.initialize("standard", {})

    def test_what_is_in_it(self):
        path = Path(os.environ["HAIRPIN_WHEEL"])
        # What is shipped; a build for debugging may be larger.
        if "manylinux" in path.name:
            self.assertLessEqual(path.stat().st_size, 12_000_000)
        names = zipfile.ZipFile(path).namelist()
        self.assertTrue([name for name in names if name.endswith(".data/scripts/hairpin")], names)
        self.assertIn("hairpin/py.typed", names)
        self.assertEqual([name for name in names if "test" in name], [])


if __name__ == "__main__":
    unittest.main()
