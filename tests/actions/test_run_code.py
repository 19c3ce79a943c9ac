"""Code out of messages, run in a sandbox, on the record."""

from __future__ import annotations

import pytest

from rolecraft import Message, Role
from rolecraft.actions.run_code import NO_CODE, NO_OUTPUT, RunPython, python_in, run_python
from rolecraft.sandboxes import LocalProcess, SandboxLimits


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("so:\n~~~py\na = 1\n~~~\nand\n```python3\nprint(a)\n```\nthere", "a = 1\n\nprint(a)"),
        ("1. first\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("```Python title=x\nprint(1)\n```", "print(1)"),
        ("```python\nprint(1)", "print(1)"),  # cut off
        ("```\nnot said to be Python\n```", ""),
        ("```pytb\nTraceback\n```", ""),
        ("```python-repl\n>>> 1\n1\n```", ""),
        (
            '```python\ndef f():\n    """\n    ```\n    """\n```',
            'def f():\n    """\n    ```\n    """',
        ),
        ("```python\n\n```", ""),
        ("no code", ""),
    ],
)
def test_python_is_what_fenced_blocks_say_is_python(text: str, code: str) -> None:
    assert python_in(text) == code


async def heard(text: str, **fields: object) -> tuple[str, Role]:
    role = Role(name="Runner", actions=[RunPython(sandbox=LocalProcess(), **fields)])
    said = await role.run(Message(text))
    assert said is not None
    return said.content, role


async def test_a_role_says_what_the_code_of_the_last_message_printed() -> None:
    said, role = await heard("I compute.\n```python\nprint(6 * 7)\n```")
    assert said == "42"
    call, result = (
        event for event in role.trajectory.events if event.kind in ("tool_call", "tool_result")
    )
    assert call.data == {"tool": "run_python", "arguments": {"code": "print(6 * 7)"}}
    assert (result.content, result.data, result.cause) == ("42", {"ok": True}, call.seq)


async def test_a_program_that_fails_is_a_result_and_no_error() -> None:
    said, role = await heard("```python\n1 / 0\n```")
    assert said.endswith("ZeroDivisionError: division by zero\n[exit code 1]")
    (result,) = role.trajectory.of("tool_result")
    assert result.data == {"ok": False}


async def test_an_endless_program_is_a_result() -> None:
    said, _ = await heard(
        "```python\nprint(1, flush=True)\nwhile True: pass\n```", limits=SandboxLimits(seconds=4)
    )
    assert said == "1\n[stopped: out of time]"


async def test_without_code_nothing_is_run_and_without_output_that_is_said() -> None:
    said, role = await heard("no code")
    assert said == NO_CODE
    assert not list(role.trajectory.of("tool_call"))
    assert (await heard("```python\npass\n```"))[0] == NO_OUTPUT


async def test_code_runs_in_bubblewrap_unless_a_sandbox_is_given(needs_program) -> None:
    needs_program("bwrap", package="bubblewrap")
    done = await run_python("import os; print(os.getcwd())")
    assert done.stdout == "/box\n"
