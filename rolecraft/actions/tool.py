"""Tools: actions that a model calls by name, with JSON arguments.

`@tool` makes one from a typed function. The model sees its name, its docstring and a JSON schema
of its parameters; the arguments come to the function validated, and what it returns goes back as
JSON. Called like the function that it was, a tool is that function: in a test, for example.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from rolecraft.actions._schema import read_signature
from rolecraft.actions._threads import in_loop, in_thread
from rolecraft.actions.action import Action
from rolecraft.errors import (
    ActionTimeout,
    ApprovalDenied,
    RolecraftError,
    ToolError,
    UsageError,
)
from rolecraft.models.base import Tool
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.values import decode_value, encode_value

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that chat APIs let a tool have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a tool's call: the text that the model reads, and, in subclasses, typed fields.

    The record has both. Fields are what `encode_value` can write, so that a later process has the
    result back.
    """

    text: str

    def __str__(self) -> str:
        return self.text


class ToolAction(Action):
    """An action that a model can call: it has a `spec`, and its `run` takes named arguments.

    `run` returns a JSON value or a `ToolResult`. It is recorded as a `tool_call` with its
    `tool_result`. `parallel` says that calls of this tool may run beside others of the same answer.
    After a call of one that `ends`, the model is not asked again, and the run of the environment
    ends as with `Finish`. `@tool` and `mcp_tools` make these.
    """

    parallel: bool = False
    ends: bool = False

    _hooks = Action._hooks | {"_parameters"}
    _call_id = ""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"A tool cannot be named {self.name!r}: models know names of 1 to 64 ASCII "
                f"letters, digits, `_` and `-`. Give it another: `@tool(name='...')`."
            )

    @property
    def spec(self) -> Tool:
        """What a model is told of this tool."""
        return Tool(name=self.name, description=self.desc, parameters=self._parameters)

    @property
    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments, an object."""

    @property
    def description(self) -> str:
        """The first line of `desc`: what stands in a list of actions."""
        return self.desc.split("\n", 1)[0]

    def _for_call(self, call_id: str, caller: Action) -> Self:
        """This tool for one call, whose id stands in the record, by the role of `caller`."""
        call = object.__new__(type(self))  # as `copy.copy`, in a third of the time
        call.__dict__ = {**self.__dict__, "_owner": caller._owner, "_call_id": call_id}
        return call

    def _start_event(self, arguments: dict[str, Any]) -> Event:
        data: dict[str, Any] = {"tool": self.name, "arguments": dict(arguments)}
        if self._call_id:
            data["id"] = self._call_id
        return Event("tool_call", data=data)

    def _end_event(self, result: Any) -> Event:
        # What the model reads; whether that is the result itself, the JSON of it, or a part of it.
        data: dict[str, Any] = {"ok": True}
        if isinstance(result, ToolResult):
            data["result"] = encode_value(replace(result, text=""))
        elif not isinstance(result, str):
            data["json"] = True
        return Event("tool_result", content=as_text(result), data=data)

    def _result_of(self, end: Event) -> Any:
        if "result" in end.data:
            return replace(decode_value(end.data["result"]), text=end.content)
        return json.loads(end.content) if end.data.get("json") else end.content

    def _error_event(self, error: Exception) -> Event:
        if not is_for_model(error):
            return super()._error_event(error)
        data = {"ok": False, "type": type(error).__name__}
        return Event("tool_result", content=str(error), data=data)


class FunctionTool(ToolAction, Generic[P, R]):
    """What `@tool` makes. `function` is the function as it was; calling the tool calls it.

    Its address, as the `cause_by` of a message or in a role's `watch`, is the function's.
    """

    function: Callable[P, R]

    def __init__(
        self, function: Callable[P, R], *, scope: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        if not callable(function) or inspect.isclass(function):
            raise UsageError(f"`@tool` makes a tool of a function, got {function!r}.")
        name = fields.pop("name", "") or getattr(function, "__name__", "")
        super().__init__(name=name, function=function, **fields)
        code = inspect.unwrap(function)
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            raise UsageError(f"Tool `{name}` yields; it must return its result at once.")
        called = getattr(function, "__call__", None)  # noqa: B004 (of a callable object)
        self._is_async = any(map(inspect.iscoroutinefunction, (function, code, called)))
        self._signature = read_signature(function, name, scope or {})
        self.desc = self.desc or self._signature.description
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The plain function: nothing is validated or recorded, and a sync one blocks."""
        return self.function(*args, **kwargs)

    async def run(self, /, **arguments: Any) -> Any:
        """Run the function off the event loop or in it, as it is sync or async.

        `arguments` are JSON values. Returns the result as JSON. Raises `BadToolCall` for wrong
        arguments, `UsageError` for a result that JSON cannot hold, and what the function raises.
        """
        values = self._signature.read(self.name, arguments)
        for name in self._signature.injected:
            values[name] = self
        if self._is_async:
            result: Any = await self.function(**values)  # type: ignore[call-arg, misc]
        else:
            result = await in_thread(self.function, **values)
        return self._signature.write(self.name, result)

    @property
    def _parameters(self) -> dict[str, Any]:
        return self._signature.parameters

    def _record(self, event: Event) -> int:
        return in_loop(super()._record, event)  # a sync function records from its thread

    @property
    def address(self) -> str:
        return f"{self.__module__}.{getattr(self, '__qualname__', self.name)}"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**fields: Any) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **fields: Any) -> Any:
    """Make a tool of a typed function, sync or async: `@tool`, or `@tool(parallel=True)`.

    `name` (the function's) and `desc` (its docstring's text before the sections) are what a model
    reads; parameters are described in the docstring (Google, NumPy or Sphinx style) or with
    `Annotated[int, Field(description=...)]`. `parallel=True` says that a call may run beside
    others of the same answer; `ends=True` that the role is done after a call that succeeds.
    `repeat`, `timeout` (seconds) and `approval` are every action's.

    A parameter annotated `Action` is not the model's: it gets the running tool, with its `role`,
    `ask` and `record_check`. Sync functions run in a thread, which a time limit cannot stop.
    Raises `UsageError` for a signature that cannot become a JSON schema.
    """
    scope = sys._getframe(1).f_locals  # annotations may name what only the caller knows
    if function is None:
        return functools.partial(FunctionTool, scope=scope, **fields)
    return FunctionTool(function, scope=scope, **fields)


def is_for_model(error: Exception) -> bool:
    """Whether a model hears of what its tool raised, and goes on; else it ends the run.

    It hears of all that user code raises, and of Rolecraft's errors of those that it can mend.
    """
    mendable = (ToolError, ActionTimeout, ApprovalDenied)
    return isinstance(error, mendable) or not isinstance(error, RolecraftError)


def as_text(result: Any) -> str:
    """A tool's result as a model reads it: a text as it is, anything else as JSON."""
    if isinstance(result, ToolResult):
        return result.text
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
