"""Parsers: what users hold. A parser parses whole answers, streams, and renders calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.base import Tool
from rolecraft.models.tool_calls.engine import read_answer
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.output import ParsedOutput, Piece
from rolecraft.models.tool_calls.schema_check import KNOWN, check_schema
from rolecraft.models.tool_calls.source import Source


class HasSpec(Protocol):
    """What can say how a model sees it, such as a function with `@tool`."""

    @property
    def spec(self) -> Tool: ...


Tools = Sequence[Tool | HasSpec | Mapping[str, Any]]
"""Tools as Rolecraft has them, or as OpenAI's API wants them: `{"type": "function", ...}`."""
UnknownTools = Literal["diagnose", "call"]
"""What a call of a tool that was not offered is: a diagnostic, or a call like any other."""


class ToolCallParser:
    """Reads and writes the tool calls of one format. Without state: one serves many answers."""

    __slots__ = ("grammar", "repair", "unknown_tools")

    def __init__(
        self, grammar: Grammar, *, repair: bool = True, unknown_tools: UnknownTools = "diagnose"
    ) -> None:
        """Without `repair`, a call that is not exactly as its format demands is malformed."""
        if unknown_tools not in ("diagnose", "call"):
            raise UsageError(f"`unknown_tools` is 'diagnose' or 'call', got {unknown_tools!r}.")
        self.grammar = grammar
        self.repair = repair
        self.unknown_tools: UnknownTools = unknown_tools

    @property
    def name(self) -> str:
        """The format's name."""
        return self.grammar.name

    def parse(
        self, text: str | None, tools: Tools | None = None, starts_in_reasoning: bool | None = False
    ) -> ParsedOutput:
        """Take a whole answer apart. Never raises for any `text`; None, as OpenAI's API has it
        beside calls, is an empty one.

        `tools` are those that were offered: values are typed by their schemas, and a call of
        another tool is not among the calls but in a diagnostic, unless `unknown_tools` is "call".
        `starts_in_reasoning` says that the chat template wrote the marker that opens the reasoning;
        with None, a close marker without an open one shows it.
        """
        grammar = self.grammar
        schemas = _schemas(tools)
        text = text or ""
        if not starts_in_reasoning and grammar.begin is None:
            found = grammar.marks.find(text)
            before = text if found is None else text[: found.start()]
            calls: list[ToolCall] | None = [] if found is None else None
            if found is not None and grammar.good is not None and "`" not in before:
                calls = grammar.good(text, found.start(), schemas)
            if calls is not None:
                return ParsedOutput("" if before.isspace() else before, "", calls)
        source = Source(schemas, repair=self.repair, unknown=self.unknown_tools == "call")
        source.text = text
        source.ended = True
        for _ in read_answer(source, grammar, starts_in_reasoning):
            pass
        return source.output()

    def stream(
        self, tools: Tools | None = None, starts_in_reasoning: bool | None = False
    ) -> ToolCallStream:
        """Begin an answer that comes in pieces."""
        return ToolCallStream(self, tools, starts_in_reasoning)

    def render(self, calls: Sequence[ToolCall]) -> str:
        """The calls as a model of this format writes them: the inverse of `parse`."""
        return self.grammar.write(calls)

    def __repr__(self) -> str:
        repair = "" if self.repair else ", repair=False"
        unknown = "" if self.unknown_tools == "diagnose" else ", unknown_tools='call'"
        return f"get_parser({self.name!r}{repair}{unknown})"


class ToolCallStream:
    """One answer in pieces. However it is cut, `finish` gives what `parse` gives for the whole."""

    __slots__ = ("_output", "_reading", "_source")

    def __init__(
        self, parser: ToolCallParser, tools: Tools | None, starts_in_reasoning: bool | None
    ) -> None:
        self._source = Source(
            _schemas(tools), repair=parser.repair, unknown=parser.unknown_tools == "call"
        )
        self._reading = read_answer(self._source, parser.grammar, starts_in_reasoning)
        self._output: ParsedOutput | None = None
        self._reading.send(None)

    def feed(self, delta: str) -> Sequence[Piece]:
        """The next piece of the answer. Returns what is certain since the last one."""
        source = self._source
        quiet = source.quiet
        if quiet and (quiet not in delta or source.sleeps_on(delta)):
            source.quiet_parts.append(delta)
            return ()
        if self._output is not None:
            raise UsageError("This answer is finished. Begin another one with `parser.stream()`.")
        source.push(delta)
        try:
            self._reading.send(None)
        except StopIteration:
            # A reading waits for more text until the end; only a reader of a user's own may not.
            source.say(source.text[source.at :])
            source.at = len(source.text)
        return source.take_pieces()

    def finish(self) -> ParsedOutput:
        """The answer has ended. Returns all of it; again, when called again."""
        if self._output is None:
            source = self._source
            source.ended = True
            for _ in self._reading:
                pass
            self._output = source.output()
        return self._output

    @property
    def pieces(self) -> Sequence[Piece]:
        """What became certain by `finish`."""
        return self._source.take_pieces()


def _schemas(tools: Tools | None) -> dict[str, Any] | None:
    if tools is None:
        return None
    if isinstance(tools, (Mapping, str)) or not isinstance(tools, Iterable):
        raise UsageError(f"`tools` is a list of tools, even of one; got {tools!r}. Write [tool].")
    schemas: dict[str, Any] = {}
    name: Any
    schema: Any
    for tool in tools:
        function: Any = tool.get("function", tool) if type(tool) is dict else tool
        if type(function) is not dict:
            name, schema = _described(tool)
        else:
            name = function.get("name")
            if type(name) is not str:
                raise _no_tool(tool)
            schema = function.get("parameters") or function.get("input_schema") or _ANY
        if KNOWN.get(id(schema)) is not schema:
            check_schema(name, schema)
        schemas[name] = schema
    return schemas


def _described(tool: Any) -> tuple[str, Any]:
    """Name and schema of a tool that is no plain dict."""
    tool = getattr(tool, "spec", tool)  # a function with `@tool`
    if isinstance(tool, Tool):
        return tool.name, tool.parameters
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if function is None or not isinstance(name, str):
        raise _no_tool(tool)
    return name, function.get("parameters") or function.get("input_schema") or _ANY


def _no_tool(tool: Any) -> UsageError:
    return UsageError(
        f"A tool is a `Tool`, a function with `@tool`, or a dict with a `name`, as in "
        f"OpenAI's API; got {tool!r}."
    )


_ANY: dict[str, Any] = {}
"""The schema of a tool that has none."""
