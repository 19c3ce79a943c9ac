"""Checks look into the sandbox after the run, are logged as signals, and hold up nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, FunctionModel, Role
from rolecraft.environments import Task, TaskEnvironment
from rolecraft.environments.tool_context import ToolContext
from rolecraft.errors import ActionTimeout, UsageError
from rolecraft.rewards import BlockingToolContext, Gate, MissingSignal, check, signal
from rolecraft.rewards.measured import Played
from rolecraft.sandboxes import Bubblewrap, LocalProcess, SandboxProvider, SandboxSpec
from rolecraft.sandboxes.live import LiveSandbox, SandboxFileError
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal, Trajectory, load

TASK = Task("greet", "Write greet.sh, which says hello.", {"wants": "hello\n"})
PATIENCE = 60.0
"""Seconds after which a test that waits gives up."""


class Write(Action):
    """Write what the model says to greet.sh."""

    repeat = "freely"  # the sandbox is made anew where a record is gone on with

    async def run(self, history: Any) -> str:
        text: str = await self.ask(history[-1].content)
        assert isinstance(self.role, Role)
        await self.role.rc.env.sandbox.write("greet.sh", text)  # type: ignore[union-attr]
        return text


class Shell(TaskEnvironment):
    """A folder with a shell in it."""

    provider: SandboxProvider = LocalProcess()
    sandbox: LiveSandbox

    async def setup(self) -> None:
        self.sandbox = await self.provider.create(SandboxSpec())

    async def grade(self) -> list[Signal]:
        return [Signal("solved", 1.0)]

    async def aclose(self) -> None:
        await self.sandbox.close()
        await super().aclose()


class InBubblewrap(Shell):
    provider = Bubblewrap()


class Tasks:
    def sample(self, count: int, *, seed: int = 0, split: str = "train") -> list[Task]:
        return [TASK] * count


def scenario(reward: Any, environment: Any = Shell) -> Scenario:
    def team() -> Iterable[Role]:
        return [Role(name="coder", actions=[Write])]

    return Scenario(
        name="greet",
        team=team,  # type: ignore[arg-type]
        environment=environment,
        tasks=Tasks(),
        reward=reward,
    )


says_hello = FunctionModel(lambda call: "echo hello", name="good")
says_nothing = FunctionModel(lambda call: "exit 1", name="bad")


@check
async def greets(context: ToolContext, task: Task) -> float:
    done = await context.terminal(["bash", "greet.sh"])
    return float(done.ok and done.stdout == task.data["wants"])


@check(seconds=60)
def is_short(context: BlockingToolContext, run: Trajectory) -> bool:
    assert any(run.of("message"))
    return len(context.read_file("greet.sh").text) < 20


@pytest.fixture
async def sandbox() -> Any:
    async with await LocalProcess().create(SandboxSpec(files={"a.txt": "one\ntwo\n"})) as made:
        yield made


async def test_checks_are_logged_and_a_stored_run_is_scored_by_them_without_a_sandbox(
    tmp_path: Path,
) -> None:
    reward = Gate(greets, signal("solved")) + 0.1 * is_short
    played = scenario(reward)
    journal = tmp_path / "run.jsonl"
    episode = await played.play(TASK, model=says_hello, journal=journal)
    assert episode.reward.shares == {"solved": 1.0, "is_short": 0.1}
    assert episode.reward.evidence["solved"] == ("solved", "check.greets")
    assert episode.reward.grounded
    stored = load(journal)
    assert [each.name for each in stored.signals] == [
        "solved",
        "turns",
        "check.greets",
        "check.is_short",
    ]
    assert stored.events[-1].kind == "stop"
    assert reward(stored) == episode.reward
    bad = await played.play(TASK, model=says_nothing)
    assert bad.reward.shares == {"gate:greets": 0.0, "is_short": 0.1}


async def test_in_a_real_bubblewrap_sandbox(needs_program: Any) -> None:
    needs_program("bwrap", package="bubblewrap")
    reward = greets + 0.1 * is_short
    played = scenario(reward, InBubblewrap)
    good, bad = await asyncio.gather(
        played.play(TASK, model=says_hello), played.play(TASK, model=says_nothing)
    )
    assert (good.reward.value, bad.reward.value) == (1.1, 0.1)


async def test_an_episode_that_goes_on_from_its_record_comes_to_the_same(tmp_path: Path) -> None:
    played = scenario(greets + 0.1 * is_short)
    journal = tmp_path / "run.jsonl"
    whole = await played.play(TASK, model=says_hello, journal=journal)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    again = await played.recover(TASK, journal, model=says_nothing)
    assert again.reward == whole.reward
    assert [each.name for each in load(journal).signals].count("check.greets") == 1


async def test_a_blocking_check_holds_up_no_other(sandbox: LiveSandbox) -> None:
    """Sync, and async by mistake: each waits until the loop has seen all of them wait."""
    under_way, go_on = threading.Semaphore(0), threading.Event()

    def wait() -> bool:
        under_way.release()
        return go_on.wait(PATIENCE)

    @check
    def blocking(context: BlockingToolContext) -> bool:
        return wait() and context.terminal("true").ok

    @check
    async def blocking_by_mistake(context: ToolContext) -> bool:
        return wait() and (await context.terminal("true")).ok

    played = Played(Trajectory(), sandbox, TASK)
    both = [asyncio.create_task(each.measure(played)) for each in (blocking, blocking_by_mistake)]
    for _ in both:
        until = time.monotonic() + PATIENCE
        while not under_way.acquire(blocking=False):
            assert time.monotonic() < until
            await asyncio.sleep(0.001)  # the loop goes on
    go_on.set()
    signals = await asyncio.gather(*both)
    assert [(each.name, each.value) for each in signals] == [
        ("check.blocking", 1.0),
        ("check.blocking_by_mistake", 1.0),
    ]


async def test_a_check_that_takes_too_long_is_given_up_and_gets_no_further(
    sandbox: LiveSandbox,
) -> None:
    refused: list[Exception] = []
    over = threading.Event()

    @check(seconds=0.2)
    def endless(context: BlockingToolContext) -> float:
        try:
            context.terminal("sleep 60")
        except BaseException:
            try:
                context.terminal("touch late")
            except UsageError as error:
                refused.append(error)
            over.set()
            raise
        return 1.0

    with pytest.raises(ActionTimeout, match="endless"):
        await endless.measure(Played(Trajectory(), sandbox))
    await asyncio.wait_for(asyncio.to_thread(over.wait, PATIENCE), PATIENCE)
    assert "was given up" in str(refused[0])
    assert not (await sandbox.run(["test", "-e", "late"])).ok


async def test_every_method_reaches_the_sandbox(sandbox: LiveSandbox, tmp_path: Path) -> None:
    @check
    async def forwarded(context: ToolContext) -> float:
        await context.write_file("b.txt", "three\n")
        found = await context.search("t", glob="*.txt")
        outcome = await context.call("execute_bash", command="cat b.txt")
        await context.download_file("b.txt", tmp_path / "b.txt")
        length = await context.compute(len, "four")
        with pytest.raises(SandboxFileError):
            await context.read_file("none")
        with pytest.raises(UsageError, match="nobody to ask"):
            await context.web_search("rain")
        return len(found.hits) + 10 * ("three" in outcome.text) + 100 * length

    @check
    def waited(context: BlockingToolContext) -> float:
        context.write_file("c.txt", "three\n")
        found = context.search("t", glob="c.txt")
        outcome = context.call("execute_bash", command="cat c.txt")
        with pytest.raises(SandboxFileError):
            context.read_file("none")
        return len(found.hits) + 10 * ("three" in outcome.text)

    played = Played(Trajectory(), sandbox)
    assert (await forwarded.measure(played)).value == 2 + 10 + 400
    assert (tmp_path / "b.txt").read_text() == "three\n"
    assert (await waited.measure(played)).value == 11


async def test_what_a_check_raises_ends_the_grading_and_no_number_is_an_error(
    sandbox: LiveSandbox,
) -> None:
    @check
    async def broken(context: ToolContext) -> float:
        raise ZeroDivisionError("by hand")

    @check
    def wordy(context: BlockingToolContext) -> Any:
        return "fine"

    with pytest.raises(ZeroDivisionError, match="by hand"):
        await scenario(broken).play(TASK, model=says_hello)
    with pytest.raises(UsageError, match="`wordy` gave 'fine', which is no number"):
        await wordy.measure(Played(Trajectory(), sandbox))


async def test_without_a_sandbox_or_a_record_there_is_no_check() -> None:
    with pytest.raises(UsageError, match="`greets` looks into a sandbox"):
        await greets.measure(Played(Trajectory(), None, TASK))
    with pytest.raises(MissingSignal, match=r"check\.greets"):
        greets([Signal("solved", 1.0)])


def test_a_check_that_wants_something_else_is_refused() -> None:
    def two(context: ToolContext, other: int) -> float:
        return other

    with pytest.raises(UsageError, match="`two` wants `other`"):
        check(two)
    with pytest.raises(UsageError, match="wants a time above 0"):
        check(seconds=0)
