"""`ExecuteBash`: a shell that goes on, its limits, and what the model is told."""

from __future__ import annotations

import pytest

from rolecraft import Role, ScriptedModel
from rolecraft.actions.codeact import BashResult, ExecuteBash
from rolecraft.errors import BadToolCall, ToolError, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.sandboxes.live import LiveSandbox


@pytest.fixture
def bash(sandbox: LiveSandbox) -> ExecuteBash:
    return ExecuteBash(sandbox=sandbox)


async def test_the_folder_variables_and_functions_stay(bash: ExecuteBash) -> None:
    await bash.run(
        command="mkdir -p deep/er && cd deep/er\nexport WHO=Ann\ngreet() { echo hi $WHO; }"
    )
    result = await bash.run(command="basename $PWD; greet")
    assert result == BashResult(text="er\nhi Ann\n[exit code 0]", exit_code=0)


async def test_both_streams_and_the_exit_code_are_told(bash: ExecuteBash) -> None:
    result = await bash.run(command="echo out; echo err >&2; (exit 7)")
    assert (result.text, result.exit_code) == ("out\nerr\n[exit code 7]", 7)
    assert (await bash.run(command="true")).text == "[exit code 0]"


async def test_after_a_time_out_the_shell_works_and_keeps_its_state(bash: ExecuteBash) -> None:
    await bash.run(command="mkdir here; cd here; state=kept")
    result = await bash.run(command="echo begun; sleep 60", timeout=3)
    assert result.failure == "timeout"
    assert result.text == "begun\n[Stopped after 3 seconds: out of time.]"
    assert (await bash.run(command="basename $PWD; echo $state")).text == (
        "here\nkept\n[exit code 0]"
    )


async def test_a_command_that_ignores_the_interrupt_is_stopped_too(bash: ExecuteBash) -> None:
    result = await bash.run(command="bash -c \"trap '' INT TERM; sleep 60\"", timeout=0.3)
    assert result.failure == "timeout"
    assert (await bash.run(command="echo well")).text == "well\n[exit code 0]"


async def test_the_time_out_has_an_upper_bound_that_is_told(sandbox: LiveSandbox) -> None:
    bash = ExecuteBash(sandbox=sandbox, seconds=1, max_seconds=5)
    with pytest.raises(ToolError, match="at most 5 seconds"):
        await bash.run(command="true", timeout=6)
    with pytest.raises(BadToolCall, match="greater than 0"):
        await bash.run(command="true", timeout=0)
    assert (await bash.run(command="sleep 30")).failure == "timeout"
    with pytest.raises(UsageError, match="at most `max_seconds`"):
        ExecuteBash(seconds=10, max_seconds=5)


async def test_long_output_keeps_head_and_tail_and_says_how_much_is_missing(
    sandbox: LiveSandbox,
) -> None:
    bash = ExecuteBash(sandbox=sandbox, output_bytes=1000)
    text = (await bash.run(command="seq 1 100000")).text
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("\n99999\n100000\n[exit code 0]")
    assert "bytes left out" in text
    assert len(text) < 1200


async def test_terminal_codes_are_no_part_of_what_is_told(bash: ExecuteBash) -> None:
    command = r"printf '\033[1;31mred\033[0m \033]0;title\007end\r\n 10%%\r 100%%\n\a\033(Bq'"
    assert (await bash.run(command=command)).text == "red end\n 100%\nq\n[exit code 0]"


async def test_exit_ends_the_shell_and_the_next_command_says_that_it_has_a_new_one(
    bash: ExecuteBash, sandbox: LiveSandbox
) -> None:
    first = await bash.run(command="cd /; exit 3")
    assert first.exit_code == 3
    assert first.text == "[exit code 3]\n[This ended the shell. The next command starts a new one.]"
    second = await bash.run(command="pwd")
    assert second.text.splitlines() == [
        f"[The shell had ended. This is a new one: it begins in {sandbox.folder}, without your "
        f"variables.]",
        sandbox.folder,
        "[exit code 0]",
    ]


async def test_a_shell_can_be_started_anew(bash: ExecuteBash) -> None:
    await bash.run(command="cd /; gone=1")
    assert (await bash.run(restart=True)).text == "A new shell was started."
    assert (await bash.run(command='echo "<$gone>"')).text == "<>\n[exit code 0]"
    assert (await bash.run(command="echo again", restart=True)).text == "again\n[exit code 0]"


async def test_a_fork_of_the_sandbox_ends_the_shell_and_the_tool_goes_on(
    bash: ExecuteBash, sandbox: LiveSandbox
) -> None:
    await bash.run(command="echo 1 > kept; lost=1")
    await (await sandbox.fork()).close()
    result = await bash.run(command='cat kept; echo "<$lost>"')
    assert result.text.splitlines()[1:] == ["1", "<>", "[exit code 0]"]


async def test_nothing_to_run_and_nul_characters_are_told(bash: ExecuteBash) -> None:
    with pytest.raises(ToolError, match="is empty"):
        await bash.run(command=" \n")
    with pytest.raises(ToolError, match="NUL"):
        await bash.run(command="echo \0")


async def test_two_roles_with_the_same_tool_have_a_shell_each(sandbox: LiveSandbox) -> None:
    """The tool stands in the class; shells are told apart by the role that calls."""

    class Walker(Role):
        tools = [ExecuteBash(sandbox=sandbox)]

    def calls(*commands: str) -> ScriptedModel:
        return ScriptedModel(
            [
                Completion(text="", tool_calls=[ToolCall("execute_bash", {"command": each}, "1")])
                for each in commands
            ]
            + ["Done."]
        )

    ann = Walker(name="Ann", model=calls("mkdir a; cd a; me=Ann", "basename $PWD; echo $me"))
    bob = Walker(name="Bob", model=calls("cd /; me=Bob", "pwd; echo $me"))
    await ann.run("go")
    await bob.run("go")
    assert [*ann.trajectory.of("tool_result")][-1].content == "a\nAnn\n[exit code 0]"
    assert [*bob.trajectory.of("tool_result")][-1].content == "/\nBob\n[exit code 0]"


async def test_without_a_sandbox_the_error_says_where_to_put_one() -> None:
    with pytest.raises(UsageError, match=r"`ExecuteBash\(sandbox=...\)`"):
        await ExecuteBash().run(command="true")


async def test_the_record_has_the_text_and_the_typed_result(sandbox: LiveSandbox) -> None:
    call = Completion(text="", tool_calls=[ToolCall("execute_bash", {"command": "exit 4"}, "1")])
    role = Role(
        name="Ann",
        tools=[ExecuteBash(sandbox=sandbox)],
        model=ScriptedModel([call, "Done."]),
    )
    await role.run("go")
    (called,) = role.trajectory.of("tool_call")
    (result,) = role.trajectory.of("tool_result")
    assert called.data["arguments"] == {"command": "exit 4"}
    assert result.content.startswith("[exit code 4]")
    assert result.data["ok"] is True
    assert result.data["result"]["value"]["exit_code"] == 4
    back = ExecuteBash()._result_of(result)
    assert back == BashResult(text=result.content, exit_code=4)
