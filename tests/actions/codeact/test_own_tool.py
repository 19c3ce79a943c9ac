"""A tool of one's own for the sandbox: what a newcomer writes, and what its model sees of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rolecraft import Role, ScriptedModel, Team
from rolecraft.actions.codeact import SandboxTool, codeact_tools
from rolecraft.actions.method_tool import MethodTool
from rolecraft.environments.tool_context import ToolContext
from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.roles.ready.codeact import CodeAct
from rolecraft.sandboxes.live import LiveSandbox


class CountLines(SandboxTool):
    """Count the lines of a file.

    Attributes:
        ending: what ends a line.
    """

    ending: str = "\n"

    async def use(self, path: str) -> int:
        return (await self.sandbox.read(path)).count(self.ending.encode())


@dataclass
class Size:
    lines: int


def called(tool: str, **arguments: Any) -> Completion:
    return Completion(text="", tool_calls=[ToolCall(tool, arguments, "1")])


async def told(role: Role, sandbox: LiveSandbox) -> list[str]:
    """What the role's model was told of its calls."""
    team = Team([role])
    team.env.sandbox = sandbox  # type: ignore[attr-defined]
    await team.run("go")
    return [event.content for event in team.trajectory.of("tool_result")]


async def test_a_tool_of_ones_own_works_in_the_sandbox_of_the_roles_environment(
    sandbox: LiveSandbox,
) -> None:
    """`self.sandbox` used to be None there: only a private name had it."""

    class Counter(CodeAct):
        tools = [*codeact_tools(), CountLines]

    await sandbox.write("a.txt", "one\ntwo\n")
    script = [called("count_lines", path="a.txt"), called("finish", message="Two.")]
    assert await told(Counter(model=ScriptedModel(script)), sandbox) == ["2", "Two."]


async def test_a_tool_that_was_given_a_sandbox_stays_in_it(sandbox: LiveSandbox) -> None:
    other = await sandbox.fork()
    await other.write("a.txt", "one\n")
    async with ToolContext(sandbox, tools=[CountLines(sandbox=other)]) as context:
        assert (await context.call("count_lines", path="a.txt")).value == 1
    await other.close()


async def test_a_path_that_is_not_there_is_told_to_the_model_and_the_run_goes_on(
    sandbox: LiveSandbox,
) -> None:
    """It used to end the whole run, as a sandbox that is lost does."""
    role = CodeAct(
        model=ScriptedModel([called("count_lines", path="no.txt"), "None."]), tools=[CountLines]
    )
    (said,) = await told(role, sandbox)
    assert "`no.txt` in the sandbox" in said
    assert role.rc.memory.get()[-1].content == "None."


def test_a_model_knows_a_tool_by_its_class_in_snake_case_and_by_its_docstring() -> None:
    spec = CountLines().spec
    assert (spec.name, spec.description) == ("count_lines", "Count the lines of a file.")
    assert CountLines(name="wc").name == "wc"


@pytest.mark.parametrize(
    ("name", "known"),
    [("Grep", "grep"), ("HTTPGet", "http_get"), ("ReadJSON", "read_json"), ("Md5Sum", "md5_sum")],
)
def test_names_with_capitals_and_numbers_become_words(name: str, known: str) -> None:
    assert type(name, (CountLines,), {})().name == known


def test_without_any_docstring_the_model_reads_none_of_ours() -> None:
    class Bare(SandboxTool):
        async def use(self, path: str) -> str:
            return path

    class Words(MethodTool):
        """Of the class."""

        async def use(self) -> str:
            """Of the method."""
            return ""

    assert (Bare().spec.description, Words().spec.description) == ("", "Of the method.")


def test_what_a_model_calls_is_an_async_method_named_use() -> None:
    """A plain one failed when it was called, and `run` in its place spoke of `*args`."""
    with pytest.raises(UsageError, match=r"`Plain.use` is no coroutine: write `async def use"):

        class Plain(SandboxTool):
            def use(self, path: str) -> str:  # type: ignore[override]
                return path

    class Other(SandboxTool):
        async def run(self, path: str) -> str:  # type: ignore[override]
            return path

    with pytest.raises(UsageError, match=r"`Other` has no `async def use\(self, …\)`: write it"):
        Role(tools=[Other])


def test_a_list_of_tools_may_have_classes_as_that_of_actions_may() -> None:
    one, other = Role(tools=[CountLines]).tools, Role(tools=[CountLines(ending="\r")]).tools
    assert [(type(tool), tool.name) for tool in (*one, *other)] == [(CountLines, "count_lines")] * 2


async def test_a_result_is_given_to_the_model_as_that_of_a_function_would_be() -> None:
    """A dataclass used to end the run with a `TypeError` of json."""

    class Measure(MethodTool):
        async def use(self) -> Size:
            return Size(3)

    class Wrong(MethodTool):
        async def use(self) -> int:
            return object()  # type: ignore[return-value]

    assert await Measure().run() == {"lines": 3}
    with pytest.raises(UsageError, match=r"Tool `wrong` returned <object .*which JSON cannot hold"):
        await Wrong().run()
