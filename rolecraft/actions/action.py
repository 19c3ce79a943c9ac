"""Actions: what a role can do.

An action is a class with `async def run`. Its fields are class attributes, its docstring says
what it does (models that choose among actions read it). Whoever calls `run`, the role's own loop
or a user's override of it, the call is recorded and counted, because `Action` wraps every `run`.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from rolecraft._declared import Declared
from rolecraft.actions.asking import Asks
from rolecraft.actions.record import Records
from rolecraft.errors import UsageError
from rolecraft.messages import USER_REQUIREMENT, address_of

if TYPE_CHECKING:
    from rolecraft.actions.owner import Owner
    from rolecraft.models.base import Session
    from rolecraft.trajectories.events import Event


class Running(NamedTuple):
    """The action that the current task is in: which, whose, and the event of its start."""

    action: Action
    owner: Owner
    event: Event
    """Its `seq` is the cause of what happens in the action, also after the round has ended."""


running: ContextVar[Running | None] = ContextVar("rolecraft_running_action", default=None)


class Action(Asks, Records, Declared):
    """A named thing that a role can do. Subclass it and write `async def run`.

    `run` gets the role's history (a sequence of messages, oldest first) if it has a parameter to
    take it. It returns a str, a `Message`, a pydantic model, a JSON value, or None for nothing to
    say. `name` defaults to the class name, `desc` to the first line of the docstring.

    An instance belongs to one role; given to a second role, it is copied.
    """

    name: str = ""
    desc: str = ""

    _takes_history: ClassVar[bool] = True
    _owner: Owner | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        run = cls.__dict__.get("run")
        if run is not None:
            _check_run(cls, run)
            cls._takes_history = _has_positional(run)
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

    def open_session(self, *, system: str | None = None) -> Session:
        return self._owned("ask a model").open_session(system=system)

    def _owned(self, purpose: str) -> Owner:
        if self._owner is None:
            raise UsageError(
                f"Action `{self.name}` belongs to no role, so it cannot {purpose}. "
                f"Give it to one: `Role(actions=[{type(self).__name__}])`."
            )
        return self._owner

    def _bound(self, owner: Owner) -> Self:
        """This action as `owner`'s: itself, or a copy if it is another role's already."""
        if type(self).run is Action.run:
            raise UsageError(
                f"Action `{type(self).__name__}` of role {owner.name!r} has no `async def "
                f"run(self, history)`: write it."
            )
        action = self if self._owner is None or self._owner is owner else copy.copy(self)
        action._owner = owner
        return action

    def __copy__(self) -> Self:
        """An equal action of no role, with lists, dicts and sets of its own."""
        new = object.__new__(type(self))
        for name, value in self.__dict__.items():
            new.__dict__[name] = copy.copy(value) if isinstance(value, (list, dict, set)) else value
        new._owner = None
        return new

    def _fields_for_record(self) -> dict[str, Any]:
        """The instance's own field values that JSON can hold, for the trajectory."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name in self._fields
            and name not in ("name", "desc")
            and isinstance(value, (str, int, float, bool))
        }

    def _record(self, event: Event) -> int:
        return self._owned("record anything")._record(event)

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


def _recorded(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a `run` so that the role hears of its start and of its failure."""

    @functools.wraps(run)
    async def recorded(self: Action, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner
        around = running.get()
        if owner is None or (around is not None and around.action is self):
            return await run(self, *args, **kwargs)  # no role, or `super().run()` of a subclass
        event = owner._action_starts(self, kwargs)
        token = running.set(Running(self, owner, event))
        try:
            return await run(self, *args, **kwargs)
        except Exception as error:
            owner._failed(error, self, event.seq)
            raise
        finally:
            running.reset(token)

    return recorded
