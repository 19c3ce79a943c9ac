"""What is kept of output: the head, the tail, and a true count of the rest."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rolecraft.sandboxes._output import HeadAndTail

MARKER = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 100))
def test_all_bytes_are_kept_or_counted(chunks: list[bytes], limit: int) -> None:
    kept, whole = HeadAndTail(limit), b"".join(chunks)
    for chunk in chunks:
        kept.add(chunk)
    assert len(kept) == len(whole)
    assert kept.truncated == (len(whole) > limit)
    if not kept.truncated:
        assert kept.content == whole
        return
    found = max(MARKER.finditer(kept.content), key=lambda each: int(each[1]))
    head, tail = kept.content[: found.start()], kept.content[found.end() :]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) + int(found[1]) == len(whole)
    assert limit - 6 <= len(head) + len(tail) <= limit, "less a character at each end"


@given(st.text(min_size=1, max_size=200), st.integers(1, 100), st.integers(1, 7))
def test_no_character_is_cut_in_two(text: str, limit: int, size: int) -> None:
    kept, data = HeadAndTail(limit), text.encode("utf-8", "replace")
    for start in range(0, len(data), size):
        kept.add(data[start : start + size])
    assert kept.text.count("\N{REPLACEMENT CHARACTER}") <= text.count("\N{REPLACEMENT CHARACTER}")


def test_memory_does_not_grow_with_the_output() -> None:
    kept = HeadAndTail(1000)
    for _ in range(2000):
        kept.add(b"x" * 100_000)
        assert len(kept._head) + len(kept._tail) <= 2000 + 2**16
    assert len(kept.content) < 1100
