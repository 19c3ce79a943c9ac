"""R6, R12: the ledger appends in constant time, and is never glued to a torn line."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.errors import JournalError
from rolecraft.rollouts.batch import ledger as of_ledger
from rolecraft.rollouts.batch.ledger import PERMANENT, RETRYABLE, Entry, Ledger, ToolCount, entries


def row(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


FULL = Entry(
    row=row(1),
    occurrence=2,
    sample=3,
    number=4,
    status="discarded:no-reasoning",
    attempts=2,
    ended="finished",
    error="none of them",
    turns=5,
    reasoned=0,
    calls=6,
    prompt_tokens=7,
    completion_tokens=8,
    usd=0.25,
    reward=0.5,
    tools=(ToolCount(tool="search", count=3, success=2, error=1),),
    invented=("dig",),
    toolsets=("web",),
    at=(10, 20),
)


def test_an_entry_goes_through_json_and_leaves_out_what_is_not_set() -> None:
    assert Entry.from_dict(json.loads(json.dumps(FULL.to_dict()))) == FULL
    assert Entry(row=row(1)).to_dict() == {"row": row(1)}
    with pytest.raises(TypeError):
        Entry.from_dict({"row": row(1), "colour": "red"})


def test_the_last_entry_of_an_item_says_what_became_of_it(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        for status in (RETRYABLE, RETRYABLE, "ok"):
            ledger.append(Entry(row=row(1), status=status, at=(0, 9) if status == "ok" else None))
        ledger.append(Entry(row=row(2), status=PERMANENT))
        ledger.append(Entry(row=row(3), status=RETRYABLE))
    with Ledger(path, on_entry=lambda entry, before: heard.append((entry.status, before))) as again:
        assert len(again) == 3
        assert [again.status(Entry(row=row(n)).item) for n in range(1, 5)] == [
            *("ok", PERMANENT, RETRYABLE),
            "",
        ]
        assert [again.is_over(Entry(row=row(n)).item) for n in range(1, 5)] == [
            *(True, True, False, False),
        ]
        assert again.at(Entry(row=row(1)).item) == (0, 9)
        assert again.at(Entry(row=row(2)).item) is None
    assert heard[:3] == [(RETRYABLE, ""), (RETRYABLE, RETRYABLE), ("ok", RETRYABLE)]


def test_a_torn_last_line_is_taken_off_at_any_byte_and_the_next_is_not_glued_to_it(
    tmp_path: Path,
) -> None:
    """Measured on the predecessor: the next append was glued to it, and both were lost."""
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        for number in range(3):
            ledger.append(Entry(row=row(number), status="ok", at=(number, 1)))
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        with Ledger(path) as ledger:
            assert ledger.repairs.torn == cut - last
            assert len(ledger) == 2
            ledger.append(Entry(row=row(9)))
        assert [entry.row for entry in entries(path)] == [row(0), row(1), row(9)]


def test_a_torn_line_longer_than_a_block_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append(Entry(row=row(0)))
    with path.open("ab") as file:
        file.write(b'{"row": "' + b"x" * 300_000)
    with Ledger(path) as ledger:
        assert ledger.repairs.torn == 300_009
        assert len(ledger) == 1


@pytest.mark.parametrize(
    "broken",
    [
        b"\0\0\0",
        b"null",
        b'{"row":"no digest"}',
        b'{"row":5}',
        b'{"row":"%s","sample":-1}' % row(1).encode(),
        b'{"row":"%s","at":[1]}' % row(1).encode(),
        b'{"config":5}',
    ],
)
def test_a_broken_line_costs_that_line_and_is_told(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        for number in range(3):
            ledger.append(Entry(row=row(number)))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + broken + b"\n" + lines[2])
    with Ledger(path) as ledger:
        assert (len(ledger), ledger.repairs.broken) == (2, [2])
        assert ledger.repairs


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "ledger.jsonl"),
        pytest.raises(JournalError, match="another process"),
    ):
        Ledger(tmp_path / "ledger.jsonl")


def test_settings_are_kept_beside_the_entries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.add_config({"model": "a"})
        ledger.append(FULL)
        ledger.add_config({"model": "b"})
    with Ledger(path) as ledger:
        assert ledger.configs == [{"model": "a"}, {"model": "b"}]
    assert list(entries(path)) == [FULL]


FILL = """
import resource, signal, sys
from rolecraft.errors import JournalError
from rolecraft.rollouts.batch.ledger import Entry, Ledger

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
number = 0
try:
    with Ledger(sys.argv[1]) as ledger:
        while True:
            ledger.append(Entry(row=f"{number:02x}" * 32, error="x" * 50))
            number += 1
except JournalError:
    print(number)
"""


def test_a_disk_that_fills_leaves_whole_lines(tmp_path: Path) -> None:
    """As RLIMIT_FSIZE in a process of its own: a write that is only partly possible."""
    path = tmp_path / "ledger.jsonl"
    command = [sys.executable, "-c", FILL, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    with Ledger(path) as ledger:
        assert not ledger.repairs
        assert len(ledger) == int(done.stdout) > 10


def test_an_append_costs_the_same_whatever_was_before(tmp_path: Path) -> None:
    """Counted in bytes written: a line, and nothing that was there already."""
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        sizes = []
        for number in range(2_000):
            before = ledger._file.size
            ledger.append(Entry(row=row(number), status="ok"))
            sizes.append(ledger._file.size - before)
    assert max(sizes) == min(sizes)


def test_the_memory_of_a_hundred_thousand_entries_is_small(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "ledger.jsonl"
    generator = random.Random(1)
    with path.open("wb") as file:
        for number in range(20_000):
            said = f"{generator.getrandbits(256):064x}"
            file.write(of_ledger.encode(Entry(row=said, number=number, at=(number, 1)).to_dict()))
    tracemalloc.start()
    with Ledger(path) as ledger:
        assert len(ledger) == 20_000
        used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used * 5 < 100_000_000  # for 100,000 of them


def test_reading_passes_over_a_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append(FULL)
        with path.open("ab") as file:
            file.write(b'{"row": "a')
        assert list(entries(path)) == [FULL]
