"""Puts the command into the wheel, and says for which machine it is.

HAIRPIN_COMMAND names the command. HAIRPIN_COPYRIGHT may name files with the licences and notices of what is inside it, a colon
between them (packaging/copyright, packaging/notices).
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: ELF's numbers of machines (elf.h), and their names in tags.
_MACHINES = {62: "x86_64", 183: "aarch64"}
#: The glibc that the tag promises to run with: PEP 600.
_GLIBC = 28


class CommandHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        command = os.environ.get("HAIRPIN_COMMAND", "")
        if not os.path.isfile(command):
            raise SystemExit(
                f"HAIRPIN_COMMAND is {command!r}, and is to be the whole path of a built command: "
                "cargo build -p hairpin-cli --bin hairpin; export HAIRPIN_COMMAND=$PWD/target/debug/hairpin"
            )
        build_data["shared_scripts"][os.path.abspath(command)] = "hairpin"
        build_data["tag"] = f"py3-none-{platform(Path(command).read_bytes())}"
        build_data["pure_python"] = False
        # hatchling's own key for such files puts them one folder deeper.
        folder = f"{self.build_config.builder.artifact_project_id}.dist-info/licenses"
        licences = [os.path.join(self.root, "..", name) for name in ("LICENSE-MIT", "LICENSE-APACHE")]
        for path in [*licences, *os.environ.get("HAIRPIN_COPYRIGHT", "").split(":")]:
            if path:
                build_data["force_include"][os.path.abspath(path)] = f"{folder}/{os.path.basename(path)}"


def platform(command: bytes) -> str:
    """The machine that a command is for: manylinux_2_28, or this kind of Linux alone if it needs a later glibc."""
    if command[:6] != b"\x7fELF\x02\x01" or len(command) < 20:
        raise SystemExit("HAIRPIN_COMMAND is no 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", command, 18)
    if machine not in _MACHINES:
        raise SystemExit(f"HAIRPIN_COMMAND is for a machine of ELF's number {machine}, not {' or '.join(_MACHINES.values())}")
    newest = max((int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)", command)), default=0)
    return f"{'manylinux_2_28' if newest <= _GLIBC else 'linux'}_{_MACHINES[machine]}"
