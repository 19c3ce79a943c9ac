"""Tools of MCP servers: real processes, spoken to over stdio and over streamable HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecraft import Role, ScriptedModel
from rolecraft.actions.mcp import mcp_tools
from rolecraft.errors import (
    ActionTimeout,
    MissingExtra,
    ToolError,
    ToolServerError,
    UnknownName,
    UsageError,
)
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.roles import UseTools

REGISTERS = Path(__file__).parent / "mcp_servers" / "registers.py"
COMMAND: list[str | Path] = [sys.executable, REGISTERS]


async def test_the_tools_of_a_process_are_listed_called_and_their_errors_told() -> None:
    async with mcp_tools(COMMAND, env={"SECRET": "42"}) as tools:
        by_name = {tool.name: tool for tool in tools}
        read = by_name["read_register"]
        assert read.spec.description == "Read one register."
        assert read.spec.parameters["required"] == ["name"]
        assert await read.run(name="a") == "1"
        assert await by_name["files_list_all"].run() == '{\n  "files": [\n    "a.py"\n  ]\n}'
        assert await by_name["picture"].run() == (
            "seen\n[image of type image/png, 6 bytes]\n[file:///log]\ninside"
        )
        with pytest.raises(ToolError, match="Error executing tool read_register"):
            await read.run(name="z")
        with pytest.raises(ToolError, match="Field required"):
            await read.run()
        # It gets what it is given, never our whole environment.
        assert await by_name["variable"].run(name="SECRET") == "42"
        assert await by_name["variable"].run(name="PYTEST_CURRENT_TEST") == "(not set)"

        call = Completion(text="", tool_calls=[ToolCall("key", {}, "1")])
        role = Role(
            name="Ann", model=ScriptedModel([call, "Done."]), actions=[UseTools(tools=tools)]
        )
        await role.run("What is the key?")
        (result,) = role.trajectory.of("tool_result")
        assert result.content == "solo/Ann/1.1"
    with pytest.raises(UsageError, match=r"'read_register' of the server `registers` was called"):
        await read.run(name="a")


async def test_what_is_raised_meanwhile_comes_out_as_it_was_raised() -> None:
    """The client's libraries would put it into an `ExceptionGroup`."""

    async def use() -> None:
        async with mcp_tools(COMMAND, only=["key"]) as tools:
            assert [tool.name for tool in tools] == ["key"]
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await use()


async def test_a_call_over_its_time_and_a_server_that_dies_are_told_to_the_model() -> None:
    """The run goes on: the model hears that the server is gone and answers without it."""
    asked = [
        Completion(text="", tool_calls=[ToolCall(name, {}, str(n))])
        for n, name in enumerate(["hang", "die", "key"])
    ]
    async with mcp_tools(COMMAND, timeout=30) as tools:
        for tool in tools:
            tool.timeout = 0.2 if tool.name == "hang" else 30
        role = Role(
            name="Ann", model=ScriptedModel([*asked, "Without."]), actions=[UseTools(tools=tools)]
        )
        message = await role.run("go")
        assert message is not None
        assert message.content == "Without."
    results = list(role.trajectory.of("tool_result"))
    assert [result.data["type"] for result in results] == [
        ActionTimeout.__name__,
        ToolServerError.__name__,
        ToolServerError.__name__,
    ]
    assert "'hang' of role 'Ann' did not end within 0.2 s" in results[0].content
    assert "`registers` gave no answer to 'die': MCPError: Connection closed" in results[1].content


@pytest.fixture
def address() -> Iterator[str]:
    with subprocess.Popen([*COMMAND, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.kill()


async def test_a_server_at_an_address(address: str) -> None:
    async with mcp_tools(address, only=["read_register", "die"], headers={"X-Team": "a"}) as tools:
        read, die = tools
        assert [*await asyncio.gather(read.run(name="a"), read.run(name="b"))] == ["1", "2"]
        for tool in (die, read):
            with pytest.raises(ToolServerError, match="`registers` gave no answer to"):
                await tool.run(name="a")


async def test_a_server_that_cannot_start_says_why() -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no licence')"]
    with pytest.raises(ToolServerError, match=r"cannot be used: .*It wrote: no licence"):
        async with mcp_tools(failing):
            pass
    with pytest.raises(ToolServerError, match="`nobody-has-this` cannot be used: FileNotFound"):
        async with mcp_tools(["nobody-has-this", "--key", "secret"]):
            pass
    with pytest.raises(ToolServerError, match=r"`http://127.0.0.1:1/mcp` cannot be used: .*fail"):
        async with mcp_tools("http://user:secret@127.0.0.1:1/mcp?key=secret"):
            pass


async def test_a_server_that_never_answers_is_given_up_and_ended() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(ToolServerError, match=r"did not answer within 0.1 s"):
        async with mcp_tools(silent, timeout=0.1):
            pass


async def test_a_wrong_name_or_server_is_told_what_is_known() -> None:
    with pytest.raises(UsageError, match=r"write `mcp_tools\(\['npx', '-y', 'x'\]\)`"):
        async with mcp_tools("npx -y x"):
            pass
    with pytest.raises(
        UnknownName, match=r"Tool of the server `registers` 'read'.*`read_register`"
    ):
        async with mcp_tools(COMMAND, only=["read"]):
            pass


async def test_without_the_package_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[mcp\]'"):
        async with mcp_tools(COMMAND):
            pass
