"""R8: what reward code gets from a `ToolContext` is typed, and never a bare dictionary."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import AsyncIterator
from typing import Any, assert_type

import pytest

from rolecraft.actions.codeact import BashResult, SearchHits
from rolecraft.environments.tool_context import Copied, FileContent, ToolContext, ToolOutcome
from rolecraft.environments.tool_context_web import Page, WebHit
from rolecraft.sandboxes import Execution, LocalProcess, SandboxSpec

METHODS = sorted(
    name
    for name, value in vars(ToolContext).items()
    if inspect.iscoroutinefunction(value) and not name.startswith("_")
)


def parts(annotation: Any) -> list[Any]:
    """An annotation and all that is written within it."""
    inner = [part for each in typing.get_args(annotation) for part in parts(each)]
    return [annotation, typing.get_origin(annotation), *inner]


def is_typed(annotation: Any) -> bool:
    """A value with named fields, or a tuple of such; nothing that a key would be looked up in."""
    if annotation is types.NoneType or dataclasses.is_dataclass(annotation):
        return True
    origin, within = typing.get_origin(annotation), typing.get_args(annotation)
    return origin is tuple and all(each is Ellipsis or is_typed(each) for each in within)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "compute"])
def test_r8_each_method_says_which_typed_result_it_gives(name: str) -> None:
    returns = typing.get_type_hints(getattr(ToolContext, name))["return"]
    assert is_typed(returns), returns
    fields = dataclasses.fields(returns) if dataclasses.is_dataclass(returns) else ()
    hints = typing.get_type_hints(returns) if fields else {}
    # `ToolOutcome.value` is whatever the tool returned: the tool's own type says what.
    loose = {each for each, hint in hints.items() if {Any, dict, object} & {*parts(hint)}}
    assert loose == ({"value"} if returns is ToolOutcome else set())


def test_r8_what_is_computed_has_the_type_of_what_the_function_returns() -> None:
    for each in typing.get_overloads(ToolContext.compute):
        hints = typing.get_type_hints(each)
        assert isinstance(hints["return"], typing.TypeVar)
        assert hints["return"] in parts(hints["function"])
    assert len(typing.get_overloads(ToolContext.compute)) == 2


@pytest.fixture
async def context() -> AsyncIterator[ToolContext]:
    files = {"a.py": "x = 1\n"}
    async with (
        await LocalProcess().create(SandboxSpec(files=files)) as sandbox,
        ToolContext(sandbox, web=Library(), pages=Library(), browser=Library()) as made,
    ):
        yield made


class Library:
    """Knows one page."""

    async def search(self, query: str, *, limit: int) -> list[WebHit]:
        return [WebHit("https://example.org")]

    async def read(self, url: str) -> Page:
        return Page(url, "A title", "A text")


def count(text: str) -> int:
    return len(text)


async def halve(number: int, by: float = 2.0) -> float:
    return number / by


class Later:
    """Async, which only its `__call__` says."""

    async def __call__(self, text: str) -> str:
        return text.upper()


async def test_r8_results_are_of_the_types_that_are_written(
    context: ToolContext, tmp_path: Any
) -> None:
    """`assert_type` is read by mypy, `isinstance` by the run."""
    done = assert_type(await context.terminal("true"), Execution)
    read = assert_type(await context.read_file("a.py"), FileContent)
    found = assert_type(await context.search("x"), SearchHits)
    copied = assert_type(await context.download_file("a.py", tmp_path / "a.py"), Copied)
    called = assert_type(await context.call("execute_bash", command="exit 3"), ToolOutcome)
    (hit,) = assert_type(await context.web_search("x"), tuple[WebHit, ...])
    pages = [await context.web_extract(hit.url), await context.browser_text(hit.url)]
    expected = (Execution, FileContent, SearchHits, Copied, ToolOutcome, WebHit, Page, Page)
    assert tuple(map(type, (done, read, found, copied, called, hit, *pages))) == expected
    assert isinstance(called.value, BashResult)

    number = assert_type(await context.compute(count, text=read.text), int)
    half = assert_type(await context.compute(halve, number, by=4.0), float)
    upper = assert_type(await context.compute(Later(), text="a"), str)
    assert (number, half, upper) == (6, 1.5, "A")
