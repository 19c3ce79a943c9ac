"""Roles that call tools: ask the model, run what it calls, tell it the results, ask again.

Invariant: every call of an answer gets exactly one result, in the order of the calls, whatever
became of the tool; only then is the model asked again. What the model can mend goes back to it:
a tool that does not exist, wrong or cut-off arguments, an exception of the tool, a time limit, a
permission that was refused. What it cannot mend ends the run: Rolecraft's other errors (a crossed
limit, wrong usage, a broken journal) and cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from itertools import groupby
from typing import Any

from rolecraft.actions import Action
from rolecraft.actions.tool import ToolAction, as_text, is_for_model
from rolecraft.errors import (
    BadToolCall,
    RolecraftError,
    StepLimitReached,
    UnknownName,
    UsageError,
)
from rolecraft.messages import FINISH, Message, ToolCall
from rolecraft.models.base import Completion, Sampling
from rolecraft.roles import _mistakes
from rolecraft.trajectories.events import Event


class UseTools(Action):
    """Answer, calling tools as needed.

    A role with `tools` and no actions of its own has this one. `tools` are the role's unless
    set. At most `max_steps` times the model is asked; if it then still calls tools, that is a
    `StepLimitReached`. Calls that follow each other run at the same time if their tools all are
    `parallel`, else one by one.
    """

    tools: Sequence[ToolAction | type[ToolAction]] = ()
    max_steps: int = 20
    sampling: Sampling | None = None

    async def run(self, history: Sequence[Message]) -> str | Message:
        session = self.open_session()
        said = self.conversation(history)
        offered: Sequence[ToolAction | type[ToolAction]] | None = None
        answers: list[Completion] = []
        for _ in range(self.max_steps):
            now = self.tools or self.role.tools
            if now is not offered:  # at first, and when a tool has changed them
                offered = now
                tools = {tool.name: tool for tool in as_tools(now)}
                specs = [tool.spec for tool in tools.values()]
            answer = await session.generate(said, tools=specs, sampling=self.sampling)
            if not answer.tool_calls:
                return answer.text
            answers.append(answer)
            if (end := self.end_before(answers)) is not None:
                return end
            said, end = await self._results(answer.tool_calls, tools)
            if end is not None:
                return end
        raise StepLimitReached(self.role.name, self.name, self.max_steps)

    def conversation(self, history: Sequence[Message]) -> list[Message]:
        """What the model is told before it answers: the history, the role's own words as its.

        Override it to tell less or more. Calls of earlier runs are not in the history.
        """
        own = self.role.name
        last = len(history) - 1
        return [
            # A conversation ends with somebody else's turn; some models refuse any other.
            Message(message.content, role="assistant")
            if message.sent_from == own and at < last
            else Message(message.content if message.role == "user" else str(message))
            for at, message in enumerate(history)
        ]

    def end_before(self, answers: Sequence[Completion]) -> Message | None:
        """What to say instead of running the calls of the last of these answers; None: go on.

        Override it to end sooner.
        """
        return None

    async def _results(
        self, calls: Sequence[ToolCall], tools: dict[str, ToolAction]
    ) -> tuple[list[Message], Message | None]:
        """Run the calls of one answer.

        Returns what the model is told of each, and the role's last message if one of them ends it.
        """
        told: list[Message] = []
        end: Message | None = None
        for parallel, group in groupby(calls, lambda call: _is_parallel(call, tools)):
            batch = list(group)
            if parallel and len(batch) > 1:
                outcomes = await self._run_together(batch, tools)
                told += map(_told, batch, outcomes)
            else:
                outcomes = []
                for call in batch:
                    outcomes.append(await self._run_alone(call, tools))
                    told.append(_told(call, outcomes[-1]))
            for call, outcome in zip(batch, outcomes, strict=True):
                if not isinstance(outcome, BaseException) and tools[call.name].ends:
                    end = Message(as_text(outcome), cause_by=FINISH)
        return told, end

    async def _run_alone(self, call: ToolCall, tools: dict[str, ToolAction]) -> Any:
        """What the call returned or raised."""
        try:
            return await self._found(call, tools).run(**call.arguments)
        except Exception as error:
            return error

    async def _run_together(
        self, calls: Sequence[ToolCall], tools: dict[str, ToolAction]
    ) -> list[Any]:
        """What calls that run at the same time returned or raised.

        All of them end, also when one fails: what was begun has its effects.
        """
        runs: list[Awaitable[Any]] = []
        failed: list[Any] = []
        for call in calls:
            try:  # a run starts when it is called: so it has its place in the record
                runs.append(self._found(call, tools).run(**call.arguments))
            except RolecraftError as error:  # it may not start, and none after it
                failed = [error]
                break
        return [*await asyncio.gather(*runs, return_exceptions=True), *failed]

    def _found(self, call: ToolCall, tools: dict[str, ToolAction]) -> ToolAction:
        """The tool that is called. Raises, and records, a `BadToolCall` if it cannot be."""
        if call.name not in tools:
            error = BadToolCall(call.name, str(UnknownName("Tool", call.name, tools)))
        elif call.incomplete:
            error = BadToolCall(call.name, f"its arguments are no JSON object: {call.raw!r}")
        else:
            return tools[call.name]._for_call(call.id, self)
        data: dict[str, Any] = {"tool": call.name, "arguments": call.arguments, "id": call.id}
        if call.incomplete:
            data["raw"] = call.raw
        called = self._record(Event("tool_call", data=data))
        self._record(Event("tool_result", content=str(error), data={"ok": False}, cause=called))
        raise error


def _told(call: ToolCall, outcome: Any) -> Message:
    """What the model is told of a call. Raises an outcome that is not for it."""
    if isinstance(outcome, BaseException):
        if not isinstance(outcome, Exception) or not is_for_model(outcome):
            raise outcome
        kind = "" if isinstance(outcome, RolecraftError) else f"{type(outcome).__name__}: "
        outcome = f"Error: {kind}{outcome}"
    return Message(as_text(outcome), role="tool", metadata={"tool_call_id": call.id})


def _is_parallel(call: ToolCall, tools: dict[str, ToolAction]) -> bool:
    return call.name in tools and tools[call.name].parallel and not call.incomplete


def as_tools(tools: Iterable[ToolAction | type[ToolAction]]) -> tuple[ToolAction, ...]:
    """The tools of a role, made of their classes where these are given, and checked.

    Raises `UsageError` for what is no tool and for two of one name.
    """
    if type(tools) is not tuple:  # those of a role are one, and checked
        _mistakes.check_list("tools", tools)
    known: dict[str, ToolAction] = {}
    for given in tools:
        tool = given() if isinstance(given, type) and issubclass(given, ToolAction) else given
        if not isinstance(tool, ToolAction):
            raise UsageError(
                f"`tools` holds {tool!r}, which is no tool: make one with `@tool`, or put an "
                f"action into `actions`."
            )
        if tool.name in known:
            raise UsageError(
                f"Two tools are named {tool.name!r}, and a model calls them by name. Give one "
                f"another: `@tool(name='...')`."
            )
        known[tool.name] = tool
    return tuple(known.values())
