"""Actions: what a role can do.

An action is a class with `async def run`. Its fields are class attributes, its docstring says
what it does (models that choose among actions read it). Whoever calls `run`, the role's own loop
or a user's override of it, the call is recorded and counted, because `Action` wraps every `run`.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from rolecraft._declared import Declared, own
from rolecraft.actions.asking import Asks
from rolecraft.actions.record import Records
from rolecraft.errors import ActionTimeout, NotRestorable, UsageError
from rolecraft.messages import USER_REQUIREMENT, address_of
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.values import decode_value, encode_value

if TYPE_CHECKING:
    from rolecraft.actions._left import Before
    from rolecraft.actions.owner import Owner
    from rolecraft.models.base import Model, Session
    from rolecraft.trajectories.recorder import Turn
    from rolecraft.trajectories.runs import ActionRun


Repeat = Literal[
    "never",  # cut off by the end of the process, its outcome is unknown, and the team decides
    "with_key",  # cut off, it is done again, with the same idempotency key
    "freely",  # it changes nothing outside this process: it is done again even when it was complete
]


@dataclass(slots=True, eq=False)
class Running:
    """One run of an action: which, whose, where it is recorded."""

    action: Action
    owner: Owner
    event: Event
    """Its start. `event.seq` is the cause of what happens in the action, also after the round."""
    path: str
    """The third run of a role is "3", the first that runs within that one "3.1"."""
    log: Turn
    past: ActionRun | None = None
    """What a record says of this run, where the role follows one."""
    reply_ends: bool = False
    """The role says the result at once, so that its message is the record of the end."""
    started: int = 0
    """How many runs of other actions it started."""
    sessions: int = 0
    """How many conversations it opened."""
    said: int = 0
    """How many messages it numbered, if it runs within another."""
    before: tuple[Before, Before] | None = None
    left: dict[str, Any] | None = None
    """What it left behind besides its result."""


running: ContextVar[Running | None] = ContextVar("rolecraft_running_action", default=None)


def idempotency_key() -> str:
    """The key of the running action, the same when it is done again after a crash.

    `<trajectory>/<role>/<number>`: pass it to whatever must not happen twice (a payment, an
    e-mail). Raises `UsageError` outside of an action that belongs to a role.
    """
    now = running.get()
    if now is None:
        raise UsageError("`idempotency_key()` was called outside of a running action of a role.")
    return now.owner._key_of(now.path)


class Action(Asks, Records, Declared):
    """A named thing that a role can do. Subclass it and write `async def run`.

    `run` gets the role's history (a sequence of messages, oldest first) if it has a parameter to
    take it. It returns a str, a `Message`, a pydantic model, a JSON value, or None for nothing to
    say. `name` defaults to the class name, `desc` to the first line of the docstring.

    An instance belongs to one role; given to a second role, it is copied.

    `model` answers this action instead of the role's. `timeout` is in seconds; an action that
    takes longer is cancelled and raises `ActionTimeout`. With `approval`, a person must allow each
    run. `repeat` says what becomes of a run that the end of the process cut off, see `Repeat`. What
    a run returned is in the record, so a completed one is not done again when the record is
    followed (recover, replay, fork).
    """

    name: str = ""
    desc: str = ""
    model: Model | str | None = None
    timeout: float | None = None
    approval: bool = False
    repeat: Repeat = "with_key"

    _positional: ClassVar[tuple[str, ...]] = ("name", "desc")
    _hooks = Declared._hooks | {
        "_aask",
        "_start_event",
        "_end_event",
        "_error_event",
        "_result_of",
        "_record",
        "_redo",
    }
    _takes_history: ClassVar[bool] = True
    _wants: ClassVar[str] = ""
    """What `run` must be given besides the history; a role's own loop has no more."""
    _owner: Owner | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        run = cls.__dict__.get("run")
        if run is not None:
            _check_run(cls, run)
            cls._takes_history, cls._wants = _has_positional(run), _wants(run)
            cls.run = _recorded(run)  # type: ignore[method-assign]

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        if not self.name:
            self.name = type(self).__name__

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do it. Subclasses write this."""
        raise UsageError(
            f"`{type(self).__name__}` has no `async def run(self, history)`: write it."
        )

    @property
    def role(self) -> Any:
        """The role that this action belongs to. Raises `UsageError` if it has none."""
        return self._owned("look at its role")

    @property
    def address(self) -> str:
        """What a message made by this action has as `cause_by`: the class's dotted path."""
        return address_of(type(self))

    @property
    def description(self) -> str:
        """`desc`, or the first line of the docstring, or nothing."""
        if self.desc:
            return self.desc
        doc = type(self).__doc__ or ""
        return doc.strip().split("\n", 1)[0] if type(self) is not Action else ""

    def open_session(
        self, *, system: str | None = None, model: Model | str | None = None
    ) -> Session:
        model = self.model if model is None else model
        return self._owned("ask a model").open_session(system=system, model=model)

    async def recall(self, query: str, k: int = 5) -> list[Any]:
        """What the role's long-term memory holds about `query`: `Role.recall`."""
        found: list[Any] = await self.role.recall(query, k)
        return found

    def _owned(self, purpose: str) -> Owner:
        if self._owner is None:
            raise UsageError(
                f"Action `{self.name}` belongs to no role, so it cannot {purpose}. "
                f"Give it to one: `Role(actions=[{type(self).__name__}])`."
            )
        return self._owner

    def _bound(self, owner: Owner) -> Self:
        """This action as `owner`'s: itself, or a copy if it is another role's already."""
        if self._owner is owner:
            return self
        if type(self).run is Action.run:
            raise UsageError(
                f"Action `{type(self).__name__}` of role {owner.name!r} has no `async def "
                f"run(self, history)`: write it."
            )
        action = self if self._owner is None else copy.copy(self)
        action._owner = owner
        return action

    def __copy__(self) -> Self:
        """An equal action of no role, with data of its own."""
        new = object.__new__(type(self))
        for name, value in self.__dict__.items():
            new.__dict__[name] = own(value)
        new._owner = None
        return new

    def _fields_for_record(self) -> dict[str, Any]:
        """The instance's own field values that JSON can hold, for the trajectory."""
        if len(self._fields) == len(Action._fields):
            return {}
        return {
            name: value
            for name, value in self.__dict__.items()
            if name in self._fields
            and name not in Action._fields
            and isinstance(value, (str, int, float, bool))
        }

    def _record(self, event: Event) -> int:
        return self._owned("record anything")._record(event)

    # What is written of a run; tools write it their way.

    def _start_event(self, arguments: dict[str, Any]) -> Event:
        """The start: the action's fields, and the arguments that JSON can hold as they are."""
        data: dict[str, Any] = {"action": self.name}
        fields = self._fields_for_record()
        for name, value in arguments.items():
            if value is None or isinstance(value, (str, int, float, bool)):
                fields[name] = value
        if fields:
            data["fields"] = fields
        return Event("action", data=data)

    def _end_event(self, result: Any) -> Event:
        """The end, with the result; `lost` names the type of one that cannot be had back."""
        try:
            return Event("action_result", data={"result": encode_value(result)})
        except NotRestorable:
            return Event("action_result", data={"lost": type(result).__qualname__})

    def _error_event(self, error: Exception) -> Event:
        """An exception as the end."""
        data = {"type": type(error).__name__, "action": self.name}
        return Event("error", content=str(error), data=data)

    async def _redo(self, start: Event) -> None:
        """Do again what a complete run did to things that do not outlive a process.

        It comes before the run is served from the record, of which it changes nothing: what was
        recorded counts. In a replay, which only reads, it does not come.
        """

    def _result_of(self, end: Event) -> Any:
        """The result that `_end_event` recorded. Raises `NotRestorable`."""
        if "lost" in end.data:
            raise NotRestorable(
                f"Action `{self.name}` has returned a `{end.data['lost']}`, which the record "
                f"cannot hold, so its run cannot be served from it. Return a str, a `Message`, a "
                f"pydantic model, a dataclass or a JSON value; or, if it may be done again, set "
                f"`repeat = 'freely'`."
            )
        return decode_value(end.data["result"])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        fields = "".join(f", {name}={value!r}" for name, value in self._fields_for_record().items())
        return f"{type(self).__name__}({self.name!r}{fields})"


class UserRequirement(Action):
    """What a user asks for: the `cause_by` of messages that come from outside."""

    ADDRESS: ClassVar[str] = USER_REQUIREMENT


def _check_run(cls: type[Action], run: object) -> None:
    code = inspect.unwrap(run) if inspect.isfunction(run) else run
    if not inspect.iscoroutinefunction(code):
        what = "yields, it must return" if inspect.isasyncgenfunction(code) else "is no coroutine"
        raise UsageError(
            f"`{cls.__qualname__}.run` {what}: write `async def run(self, history)` with `return`. "
            f"A decorator around it must keep `__wrapped__` (`functools.wraps`)."
        )


def _has_positional(run: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(run).parameters.values())[1:]
    return any(p.kind in kinds or p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)


def _wants(run: Callable[..., Any]) -> str:
    parameters = list(inspect.signature(run).parameters.values())[1:]
    if _has_positional(run):
        del parameters[0]
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    wanted = [p for p in parameters if p.default is p.empty and p.kind not in several]
    return ", ".join(f"`{p.name}`" for p in wanted)


def _recorded(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a `run` so that its role hears of its start and of its end.

    It starts, for the record, when it is called: what is called at the same time has its place in
    the order of the calls, not of the event loop.
    """

    @functools.wraps(run)
    def recorded(self: Action, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        owner = self._owner
        around = running.get()
        if owner is None or (around is not None and around.action is self):
            result: Awaitable[Any] = run(self, *args, **kwargs)
            return result  # no role, or `super().run()` of a subclass
        return _run(run, self, args, kwargs, owner._action_starts(self, kwargs))

    return recorded


async def _run(run: Callable[..., Any], self: Action, args: Any, kwargs: Any, now: Running) -> Any:
    owner = now.owner
    token = None
    try:
        if now.past is not None and await owner._is_served(now):
            result = owner._serve(now)
            if now.past.cancelled:  # whoever cancelled it then cancels it again
                await asyncio.get_running_loop().create_future()
            return result
        token = running.set(now)
        if owner._budget is not None:
            await owner._in_time(now)
        if self.approval:
            await owner._allow(now)
        if self.timeout is None:
            result = await run(self, *args, **kwargs)
        else:
            result = await _in_time(run(self, *args, **kwargs), self, owner.name)
        owner._action_ends(now, result)
        return result
    except Exception as error:
        owner._action_failed(now, error)
        raise
    except BaseException:
        owner._action_cut(now)
        raise
    finally:
        if token is not None:
            running.reset(token)
        now.log.close()


async def _in_time(work: Awaitable[Any], action: Action, role: str) -> Any:
    assert action.timeout is not None
    try:
        async with asyncio.timeout(action.timeout) as limit:
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise ActionTimeout(role, action.name, action.timeout) from error
        raise
