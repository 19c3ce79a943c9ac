"""R5, R17: called again, with the same rows, others, or other settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecraft.errors import JournalError, UsageError
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.ledger import Ledger, entries
from rolecraft.rollouts.batch.statistics import statistics


async def test_r5_another_data_set_under_the_same_name_is_refused(bench: Any) -> None:
    bench.write(["a", "b", "c"])
    await bench.run()
    bench.write(["x", "y", "c"])
    with pytest.raises(UsageError, match=r"another data set: of the 3 rows .* 1 are in this one"):
        await bench.run()
    assert bench.model.asked == ["a", "b", "c"]
    report = await bench.run(allow_mixed=True)
    assert (report.ran, len(bench.samples())) == (2, 5)  # both data sets


async def test_r5_other_settings_under_the_same_name_are_refused(bench: Any) -> None:
    bench.write(["a", "b"])
    await bench.run(seed=1)
    with pytest.raises(UsageError, match=r"other settings: `seed` was 1 and is 2.*--allow-mixed"):
        await bench.run(seed=2)
    report = await bench.run(seed=2, new=True)
    assert report.ran == 2
    assert len(list(entries(bench.out / "before-1" / "ledger.jsonl"))) == 2  # nothing is deleted
    await bench.run(seed=2, concurrency=3, usd=5.0)  # no part of what a sample is


async def test_r5_rows_may_be_removed_and_samples_added(bench: Any) -> None:
    bench.write(["a", "b", "c", "d"])
    await bench.run()
    bench.write(["d", "a", "c"])
    report = await bench.run(samples=3)
    assert report.ran == 6
    assert report.output.gone == 1
    found = bench.samples()
    assert (len(found), len(set(found))) == (9, 9)
    assert "b" not in json.dumps(
        [row["messages"][1]["content"] for row in bench.lines("openai.jsonl")]
    )
    assert len(bench.entries) == 10  # what was paid for is still there


async def test_r5_a_row_that_is_changed_while_the_batch_runs_is_told(bench: Any) -> None:
    """Its identity would be that of another row. The rows are longer than what is read ahead."""
    long = "x" * 100_000
    bench.write([f"p{n}{long}" for n in range(20)])

    def before(prompt: str) -> None:
        text = bench.rows.read_text("utf-8")
        bench.rows.write_text(text.replace("x", "y"), "utf-8")

    bench.model.before = before
    with pytest.raises(UsageError, match="was changed while the batch ran"):
        await bench.run(concurrency=1)
    assert [entry.number for entry in bench.entries][:1] == [0]  # what was finished is kept


async def test_r17_statistics_of_a_resumed_run_are_those_of_a_single_one(bench: Any) -> None:
    prompts = [f"find {n}" if n % 3 else f"p{n}" for n in range(12)] + ["find nothing"]
    bench.write(prompts)
    await bench.run(samples=2)
    single, rows = bench.statistics, sorted(bench.samples())
    bench.out = bench.folder / "resumed"
    for upto in (3, 7, 13):
        bench.write(prompts[:upto])
        await bench.run(samples=2)
    assert bench.statistics == single
    assert sorted(bench.samples()) == rows
    recounted = statistics(entries(bench.out / "ledger.jsonl"), BatchConfig(), ("search", "read"))
    assert {**single, **recounted.to_dict()} == single
    errors = {t["tool"]: (t["count"], t["success"], t["error"]) for t in single["tools"]}
    assert errors == {"read": (0, 0, 0), "search": (18, 16, 2)}


async def test_two_calls_at_the_same_time_are_refused(bench: Any) -> None:
    bench.write(["a"])
    await bench.run()
    with (
        Ledger(bench.out / "ledger.jsonl"),
        pytest.raises(JournalError, match="another process"),
    ):
        await bench.run()


async def test_a_sample_that_the_ledger_does_not_name_is_found_again(bench: Any) -> None:
    """Killed between the two writes: what was paid for is not paid again."""
    bench.write(["a", "b", "c"])
    await bench.run()
    ledger = bench.out / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-2]))
    report = await bench.run()
    assert (report.ran, report.repairs.found_again) == (0, 2)
    assert len(bench.samples()) == 3


async def test_output_that_is_up_to_date_is_not_written_again(bench: Any) -> None:
    bench.write(["a"])
    await bench.run()
    before = (bench.out / "openai.jsonl").stat().st_ino
    await bench.run()
    assert (bench.out / "openai.jsonl").stat().st_ino == before
    (bench.out / "openai.jsonl").unlink()
    await bench.run()
    assert len(bench.samples()) == 1
