"""What was measured on the batch runner of hermes-agent 0.19.0: nine failures, each a test here."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rolecraft import Action, Role, Team


async def test_missing_copies_of_rows_are_run(bench: Any) -> None:
    """There: of 12 rows, 3 prompts in 4 copies, with 3 done, none of the other 9 was run."""
    bench.write(["a", "b", "c"])
    await bench.run()
    bench.write(["a", "b", "c"] * 4)
    report = await bench.run()
    assert (report.ran, len(bench.model.asked)) == (9, 12)
    assert len(set(bench.samples())) == 12


async def test_new_rows_are_run_whatever_stood_at_their_place(bench: Any) -> None:
    """There: another data set under the same name ran none of its rows: indices were filtered."""
    bench.write(["a", "b", "c", "d"])
    await bench.run()
    bench.write(["e", "f", "g", "h"])
    report = await bench.run(allow_mixed=True)
    assert report.ran == 4
    assert bench.model.asked == list("abcdefgh")


async def test_a_reordered_and_extended_data_set_runs_what_is_new(bench: Any) -> None:
    """There: 1 of 4 new rows was run, because a row had to pass both filters."""
    bench.write(["a", "b", "c", "d"])
    await bench.run()
    bench.write(["x", "d", "y", "b", "z", "a", "w", "c"])
    report = await bench.run()
    assert report.ran == 4
    assert bench.model.asked[4:] == ["x", "y", "z", "w"]
    prompts = [row["messages"][1]["content"] for row in bench.lines("openai.jsonl")]
    assert prompts == ["x", "d", "y", "b", "z", "a", "w", "c"]  # in the order of now


async def test_calling_it_again_never_leaves_new_rows_out_in_silence(bench: Any) -> None:
    """There: the same name without --resume ran none of the new rows, and said nothing."""
    bench.write(["a", "b"])
    await bench.run()
    bench.write(["a", "b", "c"])
    report = await bench.run()
    assert (report.ran, report.complete, bench.model.asked) == (1, True, ["a", "b", "c"])


async def test_a_torn_last_line_loses_nothing_and_is_not_glued_to(bench: Any) -> None:
    """There: the next append was glued to the torn line, and 1 of 3 trajectories was left."""
    bench.write(["a", "b", "c"])
    await bench.run()
    for name in ("samples.jsonl", "ledger.jsonl"):
        whole = (bench.out / name).read_bytes()
        (bench.out / name).write_bytes(whole[:-40])
    report = await bench.run()
    assert report.repairs.torn
    assert (report.ran, len(bench.model.asked)) == (1, 4)
    assert len(bench.samples()) == len(bench.lines("samples.jsonl")) == 3


async def test_a_sample_without_reasoning_is_paid_once(bench: Any) -> None:
    """There: what was discarded for want of reasoning was run, and paid, again each time."""
    bench.model.reasoning = ""
    bench.write(["a", "b"])
    first = await bench.run()
    again = await bench.run()
    assert (first.ran, again.ran, len(bench.model.asked)) == (2, 0, 2)
    assert bench.samples() == []
    aside = bench.lines("aside.jsonl")
    assert [row["status"] for row in aside] == ["discarded:no-reasoning"] * 2
    assert aside[0]["reason"] == "none of its 1 answers has reasoning"
    assert bench.statistics["statuses"] == {"discarded:no-reasoning": 2}


class Wait(Action):
    """Answers when all that shall be under way at once are."""

    async def run(self, history: Any) -> str:
        gate = self.role.rc.env.observers[0]
        await gate.pass_through()
        return "done"


class Gate:
    """Opens when `count` are in it."""

    def __init__(self, count: int) -> None:
        self.count, self.inside = count, 0
        self.open = asyncio.Event()

    async def pass_through(self) -> None:
        self.inside += 1
        if self.inside == self.count:
            self.open.set()
        async with asyncio.timeout(60):
            await self.open.wait()

    def on_event(self, event: Any) -> None:
        return None


async def test_all_items_run_at_the_same_time(bench: Any) -> None:
    """There: 8 prompts of 0.5 s in one batch took 4.08 s: serial. R2: 64 of 64 are under way."""
    bench.write(f"p{n}" for n in range(64))
    gate = Gate(64)
    team = Team([Role(name="Worker", actions=[Wait])], observers=[gate])
    report = await bench.run(team, concurrency=64)
    assert (gate.inside, report.left) == (64, 0)


class Shell(Action):
    """A worker process, which may be killed."""

    async def run(self, history: Any) -> str:
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        if "dies" not in history[-1].content:
            code = "print('fine')"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        if process.returncode == -signal.SIGKILL:
            raise ChildProcessError("the worker was killed")
        return out.decode()


async def test_a_worker_that_is_killed_fails_its_item_and_the_run_goes_on(bench: Any) -> None:
    """There: the pool waited for ever. R7."""
    bench.write(["a", "b dies", "c"])
    report = await bench.run(Team([Role(name="Worker", actions=[Shell])]), attempts=2)
    assert (report.ran, report.left) == (3, 1)
    status = {entry.number: (entry.status, entry.ended) for entry in bench.entries}
    assert status[1] == ("failed:retryable", "environment")
    assert [status[n][0] for n in (0, 2)] == ["ok", "ok"]


def test_the_ledger_needs_no_library_that_may_be_missing(tmp_path: Path) -> None:
    """There: without PyYAML every write of a checkpoint failed, with a printed warning only."""

    code = (
        "import sys\n"
        "for name in ('yaml', 'pyarrow', 'datasets'): sys.modules[name] = None\n"
        "from rolecraft.rollouts.batch.ledger import Entry, Ledger\n"
        "with Ledger('ledger.jsonl') as ledger: ledger.append(Entry(row='ab' * 32))\n"
        "print(open('ledger.jsonl').read().strip())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert '"row":"' + "ab" * 32 in done.stdout
