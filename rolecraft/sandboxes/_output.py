"""What is kept of output: its head and its tail, with a line between that says what is missing."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Listening:
    """Who hears of output, until that ends."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self.hear: Callable[[bytes], None] | None = hear


_now: ContextVar[_Listening | None] = ContextVar("listening", default=None)


@contextmanager
def listening(hear: Callable[[bytes], None]) -> Iterator[None]:
    """Meanwhile tell `hear` what commands print, piece by piece, as it comes.

        with listening(sys.stdout.buffer.write):
            await sandbox.run(["make"])

    It hears both streams of whatever this task runs in any sandbox, all that the results leave out
    too (of a `Remote` sandbox as much as a result keeps). It may be called in another thread, and
    is not to raise or to take long.
    """
    mine = _Listening(hear)
    token = _now.set(mine)
    try:
        yield
    finally:
        mine.hear = None
        _now.reset(token)


def listener() -> Callable[[bytes], None] | None:
    """Who listens to what this task runs."""
    listens = _now.get()
    return None if listens is None else listens.hear


class HeadAndTail:
    """The first and the last bytes of a stream, half of `limit` each.

    Memory stays below twice the limit and 64 KiB, whatever is added.
    """

    __slots__ = ("_head", "_limit", "_listens", "_room", "_tail", "_total", "truncated")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._listens = _now.get()
        self._head, self._tail = bytearray(), bytearray()
        self._room = limit - limit // 2
        self._total = 0
        self.truncated = False
        """Whether bytes were left out."""

    def add(self, chunk: bytes) -> None:
        """Go on with `chunk`."""
        if self._listens is not None and (hear := self._listens.hear) is not None:
            hear(chunk)
        self._total += len(chunk)
        if self._room:
            self._head += chunk[: self._room]
            left = chunk[self._room :]
            self._room = max(0, self._room - len(chunk))
            if not left:
                return
            chunk = left
        self._tail += chunk
        if len(self._tail) > self._limit + 2**16:
            del self._tail[: len(self._tail) - self._limit // 2]
        self.truncated = self.truncated or self._total > self._limit

    def __len__(self) -> int:
        """All bytes that were added."""
        return self._total

    @property
    def content(self) -> bytes:
        """What is kept, cut between characters of UTF-8, with the line about what is not."""
        if self._total <= self._limit:
            return bytes(self._head + self._tail)
        head = bytes(self._head[: len(self._head) - _unfinished(self._head)])
        tail = self._tail[len(self._tail) - self._limit // 2 :]
        tail = tail[_orphans(tail) :]
        return head + marker(self._total - len(head) - len(tail)) + bytes(tail)

    @property
    def text(self) -> str:
        """`content`, where what is no UTF-8 is replaced."""
        return self.content.decode("utf-8", "replace")


def marker(left_out: int) -> bytes:
    """The line that stands for so many bytes."""
    return f"\n[... {left_out} bytes left out ...]\n".encode()


def _unfinished(data: bytearray) -> int:
    """How many bytes at the end are the beginning of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-4:]))
    return len(decoder.getstate()[0])


def _orphans(data: bytearray) -> int:
    """How many bytes at the start are the end of a character."""
    count = 0
    while count < min(len(data), 4) and data[count] & 0xC0 == 0x80:
        count += 1
    return count if count < 4 else 0  # no character has so many: it is no text
