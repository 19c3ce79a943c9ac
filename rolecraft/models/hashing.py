"""Hashes that name random streams: the same on every machine, in every process."""

from __future__ import annotations

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
"""2**64 / golden ratio: the increment of splitmix64."""


def hash64(*parts: int | str) -> int:
    """A 64-bit hash of whole numbers and strings, the same on every machine (splitmix64 steps)."""
    state = 0
    for part in parts:
        words = [part & MASK64] if isinstance(part, int) else _words(part)
        for word in words:
            state = _mix(((state ^ word) + GOLDEN) & MASK64)
    return state


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def _words(text: str) -> list[int]:
    data = text.encode("utf-8", "surrogatepass")
    # The length first, so that "a" and "a\0" differ.
    return [len(data)] + [
        int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)
    ]
