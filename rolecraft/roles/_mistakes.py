"""What newcomers write for a role that Python lets pass: found early, told with the way out.

All of it is looked at when a class is defined, a field is set or an error is on its way out,
never while a role works.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rolecraft.actions.action import Action
from rolecraft.errors import UsageError
from rolecraft.models.limits import check_limits
from rolecraft.models.resolve import check_model

if TYPE_CHECKING:
    from rolecraft.roles.role import Role

_LISTS = ("actions", "tools", "watch")
_ASYNC = ("_observe", "_think", "_act", "_react", "react", "run")

_ELSEWHERE = {
    "llm": "`model` is what it asks, with `await self.ask(...)`",
    "_llm": "`model` is what it asks, with `await self.ask(...)`",
    "_rc": "`rc` is its context",
    "_actions": "`actions` is its list, `add_actions(...)` and `set_actions(...)` change it",
    "_states": "`states` is its list",
    "todo": "`rc.todo` is the current action",
    "memory": "`rc.memory` is what it remembers",
    "env": "`rc.env` is what it is in",
}
"""Where what MetaGPT's roles have under a name is here."""


def check_class(cls: type[Role]) -> None:
    """Raise `UsageError` for a class body that cannot work."""
    body = vars(cls)
    for name in _LISTS:
        if name in body and (callable(body[name]) or isinstance(body[name], Action)):
            raise no_list(name, body[name], f" of `{cls.__name__}`")
    if "model" in body and not hasattr(body["model"], "__get__"):  # no property
        check_model(body["model"])
    if "limits" in body and not hasattr(body["limits"], "__get__"):
        check_limits(body["limits"])
    for name in _ASYNC:
        method = body.get(name)
        if inspect.isfunction(method) and not inspect.iscoroutinefunction(inspect.unwrap(method)):
            raise UsageError(
                f"`{cls.__name__}.{name}` is no coroutine: write `async def {name}(self)`. A "
                f"decorator around it must keep `__wrapped__` (`functools.wraps`)."
            )
    if inspect.isfunction(body.get("run")):
        _check_run(cls, body["run"])


def _check_run(cls: type[Role], run: Any) -> None:
    wanted = required(run)
    if wanted:
        raise UsageError(
            f"`{cls.__name__}.run` wants {wanted}, but it takes the place of `Role.run`, which an "
            f"environment calls without arguments. What the role does belongs into the `run` of an "
            f"action, or into `async def _act(self)`; else write `run(self, message=None)`."
        )


def required(method: Any) -> str:
    """The parameters that must be given, as text, after `self`."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ", ".join(
        f"`{parameter.name}`"
        for parameter in list(inspect.signature(method).parameters.values())[1:]
        if parameter.default is parameter.empty and parameter.kind not in several
    )


def wants_more(action: Action) -> UsageError:
    """A role runs an action whose `run` wants more than the history."""
    name = type(action).__name__
    return UsageError(
        f"`{name}.run` wants {action._wants}, and a role gives it the history only: make a field "
        f"of it (`{name}(...)` then gets it), give it a default, or call `run` with it in the "
        f"role's `_act`."
    )


COROUTINE = "<coroutine object "


def warn_not_awaited(text: str, role: Role) -> None:
    """Warn of a call in an f-string that was not awaited, which says what Python prints for it."""
    by = role.rc.last_action
    called = text.partition(COROUTINE)[2].split()[0].rpartition(".")[2]
    warnings.warn(
        f"{f'Action `{by.name}`' if by is not None else 'Code'} of role {role.name!r} says "
        f"'{COROUTINE}...' in its text: a call of `{called}` was not awaited. In an f-string, "
        f"write `{{await ...}}`.",
        stacklevel=3,
    )


def no_list(field: str, value: Any, whose: str = "") -> UsageError:
    """One thing was given for a field that wants several."""
    what = "a list of actions" if field == "actions" else "a list"
    return UsageError(f"`{field}`{whose} wants {what}, got {value!r}: write `[{_written(value)}]`.")


def check_list(field: str, value: Any) -> None:
    """Raise `UsageError` unless `value` has several things in it."""
    if isinstance(value, (Action, str)) or not isinstance(value, Iterable):
        raise no_list(field, value)


def _written(value: Any) -> str:
    if isinstance(value, Action):
        return str(value)
    return getattr(value, "__name__", None) or repr(value)


def no_attribute(owner: object, name: str) -> str:
    """The text of an `AttributeError`, with the name that is meant, where it is known."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name == "rc":
        return text + ": call `super().__init__(**kwargs)` first in its `__init__`"
    return f"{text}: {_ELSEWHERE[name]}" if name in _ELSEWHERE else text
