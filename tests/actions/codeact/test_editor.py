"""`StrReplaceEditor`: what is shown, what is changed, and errors that help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Role, ScriptedModel
from rolecraft.actions.codeact import StrReplaceEditor
from rolecraft.actions.codeact._replacing import replaced_once
from rolecraft.errors import BadToolCall, ToolError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.sandboxes.live import LiveSandbox

SOURCE = "def one():\n    return 1\n\n\ndef two():\n\treturn 2\n"


@pytest.fixture
def editor(sandbox: LiveSandbox) -> StrReplaceEditor:
    return StrReplaceEditor(sandbox=sandbox)


async def replace(editor: StrReplaceEditor, old: str, new: str, path: str = "a.py") -> str:
    result = await editor.run(command="str_replace", path=path, old_str=old, new_str=new)
    return str(result.text)


# --- view -------------------------------------------------------------------------------------


async def test_a_file_is_shown_with_the_line_numbers_of_cat_n(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("a.py", SOURCE)
    shown = await editor.run(command="view", path="a.py")
    assert shown.text.splitlines()[:3] == [
        "a.py (6 lines):",
        "     1\tdef one():",
        "     2\t    return 1",
    ]
    catted = await sandbox.run(["cat", "-n", "a.py"])
    assert shown.text.split("\n", 1)[1] == catted.stdout.rstrip("\n")
    assert shown.path == f"{sandbox.folder}/a.py"


@pytest.mark.parametrize(
    ("view_range", "first", "count"), [([2, 3], 2, 2), ([5, -1], 5, 2), ([6, 600], 6, 1)]
)
async def test_a_part_is_shown_by_its_first_and_last_line(
    editor: StrReplaceEditor, sandbox: LiveSandbox, view_range: list[int], first: int, count: int
) -> None:
    await sandbox.write("a.py", SOURCE)
    shown = (await editor.run(command="view", path="a.py", view_range=view_range)).text
    lines = shown.split("\n")
    assert lines[0] == f"a.py (lines {first} to {first + count - 1} of 6):"
    assert [int(line.split("\t")[0]) for line in lines[1:]] == list(range(first, first + count))


@pytest.mark.parametrize("view_range", [[0, 2], [7, 8], [3, 2], [1], [1, 2, 3], [-1, -1]])
async def test_a_range_that_cannot_be_is_told_with_how_many_lines_there_are(
    editor: StrReplaceEditor, sandbox: LiveSandbox, view_range: list[int]
) -> None:
    await sandbox.write("a.py", SOURCE)
    with pytest.raises(ToolError, match=r"`view_range` is \[.*(lines 1 to 6|two numbers)"):
        await editor.run(command="view", path="a.py", view_range=view_range)


async def test_a_folder_is_listed_two_levels_deep_without_hidden_entries(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", ".git/config", "src/.hidden", "odd \n name"):
        await sandbox.write(f"folder/{path}", "x")
    shown = await editor.run(command="view", path="folder")
    assert shown.text == (
        "folder, two levels deep, without hidden entries:\n"
        "a.py\nodd \n name\nsrc/\nsrc/b.py\nsrc/deep/"
    )
    with pytest.raises(ToolError, match="is a folder"):
        await editor.run(command="view", path="folder", view_range=[1, 2])


async def test_a_long_file_keeps_head_and_tail_and_names_view_range(
    sandbox: LiveSandbox,
) -> None:
    await sandbox.write("long.txt", "".join(f"line {n}\n" for n in range(1, 10_001)))
    editor = StrReplaceEditor(sandbox=sandbox, characters=2000)
    text = (await editor.run(command="view", path="long.txt")).text
    assert "     1\tline 1\n" in text
    assert " 10000\tline 10000\n" in text
    assert "left out here" in text
    assert "view_range" in text
    assert len(text) < 2300


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\0\0", "binary"),
        (b"caf\xe9", "no UTF-8 text: byte 3 is 0xe9"),
        (b"x" * (2**20 + 1), "more than 1024 KiB"),
    ],
)
async def test_binary_and_huge_files_are_refused_with_what_they_are(
    editor: StrReplaceEditor, sandbox: LiveSandbox, content: bytes, said: str
) -> None:
    await sandbox.write("file", content)
    for command in ({"command": "view"}, {"command": "str_replace", "old_str": "x"}):
        with pytest.raises(ToolError, match=said):
            await editor.run(path="file", **command)
    assert await sandbox.read("file") == content


async def test_a_file_that_is_not_there_and_a_missing_argument_are_told(
    editor: StrReplaceEditor,
) -> None:
    with pytest.raises(ToolError, match=r"`nowhere\.py`"):
        await editor.run(command="view", path="nowhere.py")
    with pytest.raises(ToolError, match="`create` needs `file_text`"):
        await editor.run(command="create", path="a.py")
    with pytest.raises(ToolError, match="give the path"):
        await editor.run(command="view", path=" ")
    with pytest.raises(BadToolCall, match="'view', 'create'"):
        await editor.run(command="delete", path="a.py")


# --- changes ----------------------------------------------------------------------------------


async def test_a_text_that_stands_once_is_replaced_and_the_change_is_shown(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("a.py", SOURCE)
    told = await replace(editor, "    return 1\n", "    # one\n    return 1\n")
    assert await sandbox.read("a.py") == SOURCE.replace("return 1", "# one\n    return 1").encode()
    assert "     2\t    # one\n     3\t    return 1\n" in told


async def test_a_text_that_stands_more_than_once_is_told_with_its_lines(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("a.py", SOURCE)
    with pytest.raises(ToolError, match=r"stands in it 2 times, beginning in lines 2, 6\."):
        await replace(editor, "return ", "yield ")
    assert await sandbox.read("a.py") == SOURCE.encode()


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def two():\n    return 2", "indented by 4 spaces, in the file by 1 tab"),
        ("def one():\n  return 1", "indented by 2 spaces, in the file by 4 spaces"),
        ("return 1  \n", "ends with 2 spaces, in the file with nothing"),
        ("def  one( ):", "other whitespace between its words"),
        ("     1\tdef one():\n     2\t    return 1", "has line numbers in front"),
        ("def one():\\n    return 1", "Write real line breaks"),
        ("def three():\n    return 1", "closest lines are:\n     1\tdef one():"),
        ("while True: pass", "no line is close"),
        ("", "`old_str` is empty"),
    ],
)
async def test_a_text_that_does_not_stand_there_is_told_with_what_is_other(
    editor: StrReplaceEditor, sandbox: LiveSandbox, old: str, said: str
) -> None:
    await sandbox.write("a.py", SOURCE)
    with pytest.raises(ToolError) as raised:
        await replace(editor, old, "x")
    assert said in str(raised.value)
    assert await sandbox.read("a.py") == SOURCE.encode()


async def test_windows_line_ends_stay_and_need_not_be_given(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("a.txt", b"one\r\ntwo\r\nthree\r\n")
    await replace(editor, "one\ntwo", "1\n2", "a.txt")
    await editor.run(command="insert", path="a.txt", insert_line=3, new_str="four")
    assert await sandbox.read("a.txt") == b"1\r\n2\r\nthree\r\nfour\r\n"


@pytest.mark.parametrize(
    ("content", "line", "new", "wanted"),
    [
        ("a\nb\n", 0, "x", "x\na\nb\n"),
        ("a\nb\n", 1, "x\n", "a\nx\nb\n"),
        ("a\nb\n", 2, "x\ny", "a\nb\nx\ny\n"),
        ("a\nb", 2, "x", "a\nb\nx\n"),
        ("a\nb", 1, "x", "a\nx\nb"),
        ("", 0, "x", "x\n"),
        ("a\n", 1, "\n", "a\n\n"),
    ],
)
async def test_lines_are_inserted_after_a_line(
    editor: StrReplaceEditor, sandbox: LiveSandbox, content: str, line: int, new: str, wanted: str
) -> None:
    await sandbox.write("a.txt", content)
    await editor.run(command="insert", path="a.txt", insert_line=line, new_str=new)
    assert await sandbox.read("a.txt") == wanted.encode()


async def test_a_line_to_insert_after_that_is_not_there_is_told(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("a.txt", "a\n")
    with pytest.raises(ToolError, match="give 0 to 1"):
        await editor.run(command="insert", path="a.txt", insert_line=2, new_str="x")


async def test_a_new_file_is_made_with_its_folders_and_no_file_is_overwritten(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await editor.run(command="create", path="new/a.py", file_text=SOURCE)
    assert await sandbox.read("new/a.py") == SOURCE.encode()
    with pytest.raises(ToolError, match="exists"):
        await editor.run(command="create", path="new/a.py", file_text="")


async def test_a_script_can_still_be_executed_after_an_edit(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await sandbox.write("run.sh", "#!/bin/sh\necho one\n", executable=True)
    await replace(editor, "one", "two", "run.sh")
    assert (await sandbox.run([f"{sandbox.folder}/run.sh"])).stdout == "two\n"


async def test_edits_are_taken_back_one_by_one_and_a_new_file_goes(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await editor.run(command="create", path="a.txt", file_text="one\n")
    await replace(editor, "one", "two", "a.txt")
    await editor.run(command="insert", path="./a.txt", insert_line=0, new_str="zero")
    for before in (b"two\n", b"one\n"):
        await editor.run(command="undo_edit", path=f"{sandbox.folder}/a.txt")
        assert await sandbox.read("a.txt") == before
    told = await editor.run(command="undo_edit", path="a.txt")
    assert told.text == "The last change was taken back: a.txt is no more."
    assert not (await sandbox.run(["test", "-e", "a.txt"])).ok
    with pytest.raises(ToolError, match="Nothing to take back"):
        await editor.run(command="undo_edit", path="a.txt")


async def test_an_edit_is_not_taken_back_over_what_something_else_wrote(
    editor: StrReplaceEditor, sandbox: LiveSandbox
) -> None:
    await editor.run(command="create", path="a.txt", file_text="one\n")
    await sandbox.write("a.txt", "by hand\n")
    with pytest.raises(ToolError, match="changed by something else"):
        await editor.run(command="undo_edit", path="a.txt")
    assert await sandbox.read("a.txt") == b"by hand\n"


async def test_changes_of_a_role_are_recorded_as_artifacts(sandbox: LiveSandbox) -> None:
    arguments = {"command": "create", "path": "src/a.py", "file_text": "x = 1\n"}
    call = Completion(text="", tool_calls=[ToolCall("str_replace_editor", arguments, "1")])
    role = Role(tools=[StrReplaceEditor(sandbox=sandbox)], model=ScriptedModel([call, "Done."]))
    await role.run("go")
    (event,) = role.trajectory.of("artifact")
    assert event.artifact is not None
    assert event.artifact.name == "src/a.py"


# --- properties of the replacement ------------------------------------------------------------

TEXT = st.text(st.sampled_from("ab \n\t"), max_size=40)


@given(TEXT, TEXT, TEXT, st.text("xy", max_size=4))
def test_a_replacement_is_pythons_own_or_leaves_everything(
    before: str, old: str, after: str, new: str
) -> None:
    text = before + old + after
    places = sum(text.startswith(old, at) for at in range(len(text))) if old else 0
    try:
        changed, line = replaced_once(text, old, new, "a.py")
    except ToolError:
        assert places != 1 or old == new
    else:
        assert places == 1
        assert changed == text.replace(old, new)
        assert line == text[: text.index(old)].count("\n") + 1


@given(TEXT, TEXT.filter(bool))
def test_an_error_always_says_something_of_every_text(text: str, old: str) -> None:
    if old not in text:
        with pytest.raises(ToolError, match=r"`a\.py` was not changed: "):
            replaced_once(text, old, "x", "a.py")


def test_looking_for_the_closest_lines_takes_time_in_proportion_to_the_file(growth: Any) -> None:
    """The largest file that it is done for has some 25,000 lines."""

    def looks(lines: int) -> Callable[[], object]:
        text = "".join(f"    value_{n} = compute(value_{n - 1}, {n})\n" for n in range(lines))

        def work() -> None:
            with pytest.raises(ToolError, match="closest lines"):
                replaced_once(text, "    valu_12345 = compute(value_1234, 12345)\n" * 3, "", "a")

        return work

    growth(looks, 3_000, 24_000, at_most=24)
