"""Checks: a reward that looks into the sandbox after the run, by a function of yours.

    @check
    async def builds(context: ToolContext) -> float:
        return float((await context.terminal("make")).ok)

    @check(seconds=60)
    def short(context: BlockingToolContext, task: Task) -> bool:      # synchronous is as good
        return len(context.read_file(task.data["file"]).text) < 1000

    Gate(builds, solved) + 0.1 * short

Invariant: a check holds up nobody but its own run. Sync or async, it runs in a thread of its own;
what it asks of the sandbox is done by the event loop, where the sandbox lives. One that takes more
than `seconds` is given up with `ActionTimeout`, what it had begun in the sandbox is cancelled, and
what it still asks for is refused.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from rolecraft.actions._threads import in_thread
from rolecraft.errors import ActionTimeout, UsageError
from rolecraft.rewards.measured import Measured, Played
from rolecraft.rewards.signals import Signals
from rolecraft.trajectories.events import Signal

if TYPE_CHECKING:  # the tools of sandboxes, which most rewards never need
    from rolecraft.rewards.check_contexts import Door

SECONDS = 300.0
"""What a check may take, unless it says otherwise."""
_GIVEN = ("task", "run")
"""What a check may ask for by the name of an argument, besides the context."""

Function = Callable[..., float | bool | Awaitable[float | bool]]


@dataclass(frozen=True, slots=True)
class Check(Measured):
    """A function of a `ToolContext` as a reward; made by `check`.

    It is recorded as the signal `check.NAME`, whose source is the environment; its share is NAME.
    Where it was not recorded, `MissingSignal` is raised, as for every measurement.
    """

    name: str
    function: Function
    seconds: float = SECONDS

    @property
    def label(self) -> str:
        return self.name

    @property
    def signal(self) -> str:
        return f"check.{self.name}"

    def shares(self, signals: Signals) -> dict[str, float]:
        signals.note(self.name, [self.signal])
        return {self.name: signals[self.signal]}

    async def measure(self, played: Played) -> Signal:
        """Run the function in the sandbox. Raises what it raises, `ActionTimeout`, and `UsageError`
        where the environment has no sandbox or no number comes of it."""
        from rolecraft.environments.tool_context import ToolContext
        from rolecraft.rewards.check_contexts import Door

        if played.sandbox is None:
            raise UsageError(
                f"The check `{self.name}` looks into a sandbox, and the environment has none: set "
                f"`self.sandbox` in its `setup`, and close it in `aclose`."
            )
        wanted = inspect.signature(self.function).parameters
        given = {each: getattr(played, each) for each in _GIVEN if each in wanted}
        async with ToolContext(played.sandbox) as context:
            door = Door(context, asyncio.get_running_loop())
            try:
                async with asyncio.timeout(self.seconds) as limit:
                    value = await in_thread(partial(_call, self.function, door, given))
            except TimeoutError as error:
                if limit.expired():
                    raise ActionTimeout("grading", self.name, self.seconds) from error
                raise
            finally:
                await door.close()
        return Signal(self.signal, _number(self.name, value))


def _call(function: Function, door: Door, given: dict[str, Any]) -> Any:
    """In its thread: a sync function as it is, an async one in an event loop of its own."""
    from rolecraft.rewards.check_contexts import BlockingToolContext, ThreadedToolContext

    if not inspect.iscoroutinefunction(function):
        return function(BlockingToolContext(door), **given)

    async def called() -> Any:
        return await function(ThreadedToolContext(door), **given)

    return asyncio.run(called())


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"The check `{name}` gave {value!r}, which is no number.") from None


@overload
def check(function: Function) -> Check: ...
@overload
def check(*, seconds: float = SECONDS) -> Callable[[Function], Check]: ...
def check(
    function: Function | None = None, *, seconds: float = SECONDS
) -> Check | Callable[[Function], Check]:
    """Make a reward of a function that looks into the sandbox after the run. A decorator.

    The function gets a `ToolContext` if it is async and a `BlockingToolContext` if it is not, and
    by name, if it has such arguments, the `task` and the `run` so far. It returns a number.
    """
    if not seconds > 0:
        raise UsageError(f"`check(seconds={seconds!r})` wants a time above 0.")
    if function is None:
        return partial(_made, seconds=seconds)
    return _made(function, seconds=seconds)


def _made(function: Function, *, seconds: float) -> Check:
    parameters = list(inspect.signature(function).parameters.values())
    needed = [each.name for each in parameters[1:] if each.default is each.empty]
    unknown = [each for each in needed if each not in _GIVEN]
    if not parameters or unknown:
        raise UsageError(
            f"The check `{function.__name__}` wants "
            f"{', '.join(f'`{each}`' for each in unknown) or 'nothing'}. It is given a context, "
            f"and by name `task` and `run`."
        )
    return Check(function.__name__, function, seconds)
