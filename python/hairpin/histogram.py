"""Histograms of times, as records hold them: HdrHistogram V2, deflated, base64.

Hairpin writes one combination only: 1 ns to 60 s with three digits. Up to 2047 ns each value has a count of its own; beyond that,
1024 counts share each power of two.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

#: The most bytes of the text, and of what it unpacks to. Hairpin writes fewer.
LARGEST = 1 << 20

_PACKED, _PLAIN = 0x1C849314, 0x1C849313
_HEAD = struct.Struct(">IIIIQQd")
_BOUNDS = (3, 1, 60_000_000_000)
_HALF, _HALF_BITS = 1024, 10
#: Counts that the range of values takes.
_COUNTS = 27 * _HALF


def percentiles(text: str, least_ns: int = 0, most_ns: int = 1 << 63) -> list[dict[str, float]]:
    """The percentile table of an encoded histogram, a line for each value that was recorded, ascending:

    - percentile: the share of the samples up to this value, 0 to 100
    - value_ns: the longest time that the line stands for, exact to three digits
    - count, above: the samples up to this value, and those beyond

    `least_ns` and `most_ns` are the exact minimum and maximum where known: a line may stand for times beyond them.
    Raises ValueError if the text is no such histogram.
    """
    recorded = decode(text)
    total = sum(count for _, count in recorded)
    steps, up_to = [], 0
    for value, count in recorded:
        up_to += count
        value = min(max(value, least_ns), most_ns)
        steps.append({"percentile": 100 * up_to / total, "value_ns": value, "count": up_to, "above": total - up_to})
    return steps


def decode(text: str) -> list[tuple[int, int]]:
    """The recorded values in ns, the longest that each count stands for, and their counts."""
    counts = _inflate(text)
    found, index, at = [], 0, 0
    while at < len(counts):
        number, at = _number(counts, at)
        # A negative number is a run of empty counts.
        if number < 0:
            index -= number
        else:
            if index >= _COUNTS:
                raise ValueError("a count of the histogram lies beyond its range")
            if number > 0:
                found.append((_longest(index), number))
            index += 1
    return found


def _longest(index: int) -> int:
    """The longest time in ns that counts at `index`."""
    bucket = max((index >> _HALF_BITS) - 1, 0)
    return ((index - bucket * _HALF + 1) << bucket) - 1


def _number(counts: bytes, at: int) -> tuple[int, int]:
    """A signed number (zigzag, LEB128, at most nine bytes) and the place after it."""
    number = 0
    for place in range(9):
        if at == len(counts):
            raise ValueError("the histogram ends inside a number")
        byte = counts[at]
        at += 1
        # The ninth byte has eight bits of the number, the others seven and a bit that says whether another follows.
        if place == 8 or byte < 0x80:
            number |= byte << 7 * place
            break
        number |= (byte & 0x7F) << 7 * place
    return number >> 1 ^ -(number & 1), at


def _inflate(text: str) -> bytes:
    """The encoded counts, if all around them is as Hairpin writes it."""
    if len(text) > LARGEST:
        raise ValueError(f"the histogram is larger than {LARGEST} bytes")
    try:
        packed = base64.b64decode(text, validate=True)
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(packed[8:], LARGEST)
    except (binascii.Error, UnicodeEncodeError, zlib.error, ValueError) as error:
        raise ValueError(f"the histogram cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError(f"the histogram is cut off, or larger than {LARGEST} bytes")
    if len(plain) < _HEAD.size or packed[:4] != struct.pack(">I", _PACKED):
        raise ValueError("the histogram does not begin like one of HdrHistogram V2")
    cookie, length, _, digits, lowest, highest, _ = _HEAD.unpack_from(plain)
    counts = plain[_HEAD.size :]
    if cookie != _PLAIN or length != len(counts):
        raise ValueError("the length of the histogram is not what it claims")
    if (digits, lowest, highest) != _BOUNDS:
        raise ValueError("the range of the histogram is not 1 ns to 60 s with three digits")
    return counts
