"""Tools as actions: where they run, what they are told, what is recorded, how they fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from rolecraft import Action, Message, Role, Team
from rolecraft.actions import idempotency_key, tool
from rolecraft.errors import ActionTimeout, BadToolCall, NotRestorable, UsageError
from rolecraft.trajectories import Trajectory


@tool
async def read_register(name: str) -> int:
    """Read one register."""
    return {"a": 1}[name]


@tool
def look_around() -> str:
    """See who is there."""
    return "nobody"


def lines(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(event.kind, event.content) for event in trajectory.events]


class Call(Action):
    """Calls one tool, as an action of a user's own may do."""

    tool: Action
    arguments: dict[str, object] = {}

    async def run(self) -> str:
        tool = self.tool._for_call("7", self)  # type: ignore[attr-defined]
        return str(await tool.run(**self.arguments))


# --- a tool is a function, and an action ------------------------------------------------------


async def test_called_as_the_function_that_it_was_a_tool_is_that_function() -> None:
    assert await read_register("a") == 1
    assert look_around() == "nobody"
    assert await read_register.function("a") == 1
    assert read_register.__doc__ == "Read one register."


async def test_a_tool_without_parameters_can_stand_in_an_action_list() -> None:
    """What it returns is the role's message, and who watches it hears of it."""
    role = Role(name="Ann", actions=[look_around])
    message = await role.run("go")
    assert message is not None
    assert message.content == "nobody"
    assert message.cause_by == look_around.address == f"{__name__}.look_around"
    assert Role(name="Bob", actions=[look_around], watch=[look_around]).rc.watch == {
        look_around.address
    }


async def test_a_tool_that_needs_arguments_says_so_when_it_gets_none() -> None:
    with pytest.raises(BadToolCall, match=r"`read_register` was called wrongly: `name` is missing"):
        await Role(actions=[read_register]).run("go")


async def test_a_call_and_its_result_are_one_pair_in_the_record() -> None:
    role = Role(name="Ann", actions=[Call(read_register, {"name": "a"})])
    await role.run("go")
    (called,) = role.trajectory.of("tool_call")
    (result,) = role.trajectory.of("tool_result")
    shown = {name: called.data[name] for name in ("tool", "arguments", "id")}
    assert shown == {"tool": "read_register", "arguments": {"name": "a"}, "id": "7"}
    assert (result.content, result.data["ok"], result.cause) == ("1", True, called.seq)


async def test_a_parameter_annotated_action_gets_the_running_tool() -> None:
    """With its role, and with all that an action can record; beside the idempotency key."""

    @tool
    async def pay(amount: int, here: Action) -> str:
        here.record_check("amount", passed=amount < 100)
        return f"{here.role.name} {here.role.profile} {idempotency_key()}"

    role = Role(name="Ann", profile="clerk", actions=[Call(pay, {"amount": 3})])
    message = await role.run("go")
    assert message is not None
    assert message.content == "Ann clerk solo/Ann/1.1"
    (called,) = role.trajectory.of("tool_call")
    (check,) = role.trajectory.of("verify")
    assert (check.cause, called.data["arguments"]) == (called.seq, {"amount": 3})


# --- sync functions ---------------------------------------------------------------------------

WHO: ContextVar[str] = ContextVar("WHO")


async def test_a_sync_function_runs_in_a_thread_that_has_the_context() -> None:
    @tool
    def where() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), WHO.get()

    WHO.set("Ann")
    assert await where.run() == [False, "Ann"]


async def test_sync_functions_do_not_wait_for_each_other_nor_block_the_loop() -> None:
    meeting = threading.Barrier(3)

    @tool
    def meet(name: str) -> str:
        meeting.wait(30)
        return name

    together = asyncio.gather(*(meet.run(name=name) for name in "abc"))
    assert list(await together) == ["a", "b", "c"]


async def test_idle_threads_are_used_again() -> None:
    @tool
    def which() -> int:
        return threading.get_ident()

    assert len({await which.run() for _ in range(20)}) == 1


async def test_a_sync_function_records_in_the_loop_and_asks_for_its_key() -> None:
    threads: list[bool] = []

    @tool
    def build(here: Action) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        here.record_artifact("a.py", "print(1)")
        return idempotency_key()

    role = Role(name="Ann", actions=[Call(build)])
    message = await role.run("go")
    assert message is not None
    assert (threads, message.content) == ([False], "solo/Ann/1.1")
    kinds = [event.kind for event in role.trajectory.events]
    assert kinds == ["message", "action", "tool_call", "artifact", "tool_result", "message"]


@pytest.mark.parametrize("error", [KeyError("lost"), SystemExit(3)])
async def test_what_a_sync_function_raises_comes_out_as_it_was_raised(
    error: BaseException,
) -> None:
    @tool
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await fail.run()
    assert caught.value is error


async def test_an_exhausted_iterator_in_a_sync_function_is_an_error_and_no_deadlock() -> None:
    """A future cannot hold a `StopIteration`; a forgotten one would never be done."""

    @tool
    def first() -> str:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await first.run()


# --- time limits and cancellation -------------------------------------------------------------


async def test_a_sync_function_that_never_returns_is_given_up_at_its_time_limit() -> None:
    """Its thread goes on, and what it then wants to record is refused."""
    release, refused = threading.Event(), asyncio.Event()
    problems: list[str] = []
    loop = asyncio.get_running_loop()

    @tool(timeout=0.05)
    def stuck(here: Action) -> str:
        release.wait(30)
        try:
            here.record_check("too late", passed=True)
        except UsageError as error:
            problems.append(str(error))
        loop.call_soon_threadsafe(refused.set)
        return "late"

    role = Role(name="Ann", actions=[Call(stuck)])
    with pytest.raises(ActionTimeout, match=r"'stuck' of role 'Ann' did not end within 0.05 s"):
        await role.run("go")
    assert lines(role.trajectory)[2:4] == [
        ("tool_call", ""),
        ("tool_result", "Action 'stuck' of role 'Ann' did not end within 0.05 s, its `timeout`."),
    ]
    before = len(role.trajectory.events)
    release.set()
    await refused.wait()
    assert "`stuck` was given up" in problems[0]
    assert len(role.trajectory.events) == before


async def test_an_async_function_that_never_returns_is_cancelled_at_its_time_limit() -> None:
    ended: list[str] = []

    @tool(timeout=0.05)
    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    with pytest.raises(ActionTimeout):
        await Role(actions=[Call(stuck)]).run("go")
    assert ended == ["cleaned up"]


def test_a_function_that_hangs_does_not_keep_the_program_from_ending() -> None:
    program = """
import asyncio, threading
from rolecraft import Role
from rolecraft.actions import tool
from rolecraft.errors import ActionTimeout

@tool(timeout=0.01)
def stuck() -> None:
    threading.Event().wait()

try:
    asyncio.run(Role(actions=[stuck]).run("go"))
except ActionTimeout:
    print("given up")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("given up\n", "")


@pytest.mark.parametrize("sync", [True, False])
async def test_a_tool_cancelled_half_way_is_recorded_as_cancelled(sync: bool) -> None:
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def blocks() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(30)

    @tool
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    role = Role(actions=[Call(blocks if sync else waits)])
    run = asyncio.create_task(role.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    release.set()
    (called,) = role.trajectory.of("tool_call")
    (end,) = (event for event in role.trajectory.events if event.cause == called.seq)
    assert (end.kind, end.data["cancelled"]) == ("action_result", True)
    assert isinstance(await Role(actions=[look_around]).run("again"), Message)


# --- with other parts -------------------------------------------------------------------------


async def test_a_list_of_tools_that_an_action_swapped_in_is_not_guessed_from_the_record() -> None:
    """A function cannot be had back from a file: the replay says so, and what to do."""

    class Swap(Action):
        async def run(self) -> str:
            self.role.set_actions([look_around])
            return "swapped"

    team = Team([Role(name="Ann", actions=[Swap])])
    run = await team.run("go")
    with pytest.raises(NotRestorable, match=r"\['look_around'\] cannot be made again"):
        await team.replay(run)
