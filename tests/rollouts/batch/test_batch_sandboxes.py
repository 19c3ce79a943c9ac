"""R7, R9, R16: each item has a sandbox of its own, as its row says, closed whatever happens."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from rolecraft import FunctionModel, Role, Team
from rolecraft.actions.codeact import codeact_tools
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.sandboxes import Bubblewrap, LiveSandbox, LocalProcess, SandboxSpec


class Counting:
    """A provider that knows which of its sandboxes are open."""

    def __init__(self, inner: Bubblewrap | LocalProcess | None = None) -> None:
        self.inner = inner or Bubblewrap()
        self.walls = self.inner.walls
        self.made: list[SandboxSpec | None] = []
        self.sandboxes: list[LiveSandbox] = []

    async def create(self, spec: SandboxSpec | None = None) -> LiveSandbox:
        self.made.append(spec)
        self.sandboxes.append(await self.inner.create(spec))
        return self.sandboxes[-1]


@pytest.fixture
async def provider(needs_program: Any) -> Any:
    needs_program("bwrap", package="bubblewrap")
    made = Counting()
    yield made
    close = getattr(made.inner, "aclose", None)
    if close is not None:
        await close()


def shell_team() -> Team:
    """Runs what the row says in the shell of its sandbox, and answers with what came of it."""

    def answer(call: Any) -> Completion:
        last = call.messages[-1]
        if last.api_role == "tool":
            return Completion(text=last.content, reasoning="why")
        run = ToolCall("execute_bash", {"command": last.content}, "c1")
        return Completion(text="", reasoning="why", tool_calls=[run])

    return Team([Role(name="R", tools=codeact_tools())], model=FunctionModel(answer))


def processes_with(mark: str) -> list[str]:
    """Command lines of processes that hold a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in line and folder.name != str(os.getpid()):
            found.append(line)
    return found


async def test_each_item_works_in_a_sandbox_that_its_row_describes(
    bench: Any, provider: Any
) -> None:
    bench.write(
        [
            {"prompt": "cat a.txt", "sandbox": {"files": {"a.txt": "first"}}},
            {"prompt": "cat a.txt", "sandbox": {"files": {"a.txt": "second"}}},
            {"prompt": "echo $MINE", "sandbox": {"env": {"MINE": "third"}}},
            {"prompt": "ls", "sandbox": {"network": "full"}},
        ]
    )
    report = await bench.run(shell_team(), model=None, provider=provider)
    assert bench.statistics["statuses"] == {"discarded:bad-sandbox": 1, "ok": 3}
    said = [row["messages"][-1]["content"] for row in bench.lines("openai.jsonl")]
    assert ["first" in said[0], "second" in said[1], "third" in said[2]] == [True] * 3
    assert report.complete
    assert len(provider.sandboxes) == 3


async def test_r9_two_batches_at_once_see_nothing_of_each_others_backend(
    bench: Any, provider: Any, tmp_path: Path
) -> None:
    """One process, two sandbox providers, the same names of variables."""
    (tmp_path / "other").mkdir()
    other = type(bench)(tmp_path / "other")
    for each, mine in ((bench, "walls"), (other, "plain")):
        rows = [
            {"prompt": f"echo {n} $MINE; sleep 0.2", "sandbox": {"env": {"MINE": mine}}}
            for n in range(3)
        ]
        each.write(rows)
    plain = Counting(LocalProcess())
    await asyncio.gather(
        bench.run(shell_team(), model=None, provider=provider),
        other.run(shell_team(), model=None, provider=plain),
    )
    for each, mine in ((bench, "walls"), (other, "plain")):
        said = [row["messages"][-1]["content"] for row in each.lines("openai.jsonl")]
        assert sorted(text.split("\n")[0] for text in said) == [f"{n} {mine}" for n in range(3)]
    assert [len(each.sandboxes) for each in (provider, plain)] == [3, 3]


async def test_an_item_that_hangs_in_its_sandbox_leaves_no_process(
    bench: Any, provider: Any
) -> None:
    mark = f"sleep 98765.{os.getpid()}"  # nobody else's on this machine
    bench.write([mark])
    report = await bench.run(shell_team(), model=None, provider=provider, seconds=3.0, attempts=2)
    assert [entry.status for entry in bench.entries] == ["failed:retryable"] * len(bench.entries)
    assert report.left == 1
    for _ in range(400):
        if not processes_with(mark):
            break
        await asyncio.sleep(0.05)
    assert processes_with(mark) == []
