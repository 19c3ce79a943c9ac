"""`SearchFiles`, `ReadFile`, `WriteFile`: bounded, typed, and clear when something is wrong."""

from __future__ import annotations

import pytest

from rolecraft.actions.codeact import ReadFile, SearchFiles, SearchHit, WriteFile, search_files
from rolecraft.errors import ToolError
from rolecraft.sandboxes.live import LiveSandbox


@pytest.fixture
async def tree(sandbox: LiveSandbox) -> LiveSandbox:
    files: dict[str, str | bytes] = {
        "a.py": "import os\n\n\ndef area(width, height):\n    return width * height\n",
        "src/b.py": "from a import area\nAREA = area(1, 2)\n",
        "src/deep/c.py": "# area 51\n",
        "src/c.txt": "the area\n",
        "data.bin": b"area\0\1\2",
        ".git/config": "area\n",
        "node_modules/x.js": "area\n",
        "-odd $(name)\n.py": "area of oddness\n",
    }
    for path, content in files.items():
        await sandbox.write(path, content)
    return sandbox


async def paths(sandbox: LiveSandbox, pattern: str, **options: object) -> list[str]:
    found = await search_files(sandbox, pattern, **options)  # type: ignore[arg-type]
    return [f"{hit.path}:{hit.line}" for hit in found.hits]


async def test_matching_lines_come_by_path_with_their_numbers(tree: LiveSandbox) -> None:
    assert await paths(tree, "area") == [
        "-odd $(name)\n.py:1",
        "a.py:4",
        "src/b.py:1",
        "src/b.py:2",
        "src/c.txt:1",
        "src/deep/c.py:1",
    ]
    found = await search_files(tree, r"def \w+\(")
    assert found.hits == (SearchHit(path="a.py", line=4, text="def area(width, height):"),)
    assert str(found) == "a.py\n4:def area(width, height):"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"glob": "*.txt"}, ["src/c.txt:1"]),
        ({"glob": "src/*.py"}, ["src/b.py:1", "src/b.py:2"]),
        ({"glob": "src/**/*.py"}, ["src/b.py:1", "src/b.py:2", "src/deep/c.py:1"]),
        ({"glob": "deep/*.py", "path": "src"}, ["src/deep/c.py:1"]),
        ({"path": "src/c.txt"}, ["src/c.txt:1"]),
        ({"path": ".git"}, [".git/config:1"]),
        ({"path": "./src/deep/"}, ["src/deep/c.py:1"]),
    ],
)
async def test_files_are_chosen_by_folder_and_glob(
    tree: LiveSandbox, options: dict[str, str], wanted: list[str]
) -> None:
    assert await paths(tree, "area", **options) == wanted


async def test_case_counts_unless_it_is_not_to(tree: LiveSandbox) -> None:
    assert await paths(tree, "^AREA") == ["src/b.py:2"]
    assert await paths(tree, "^AREA", ignore_case=True) == ["-odd $(name)\n.py:1", "src/b.py:2"]


async def test_results_are_bounded_and_say_that_there_are_more(sandbox: LiveSandbox) -> None:
    await sandbox.write("many.txt", "hit\n" * 500 + "hit " + "x" * 10_000 + "\n")
    result = await SearchFiles(sandbox=sandbox, limit=3).run(pattern="hit")
    assert len(result.found.hits) == 3
    assert result.found.more
    assert "Only the first 3" in result.text
    await sandbox.write("huge.txt", f"{'y' * 1000}\n" * 4000)
    huge = await search_files(sandbox, "y", limit=10_000)
    assert huge.more
    assert 100 < len(huge.hits) < 4000
    assert {hit.path for hit in huge.hits} == {"huge.txt"}
    (long,) = (await search_files(sandbox, "hit x")).hits
    assert len(long.text) < 400


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("(", ".", "failed"),
        ("", ".", "is empty"),
        ("a\nb", ".", "not of one line"),
        ("a", "nowhere", "`nowhere` does not exist"),
        ("a", "$(touch pwned)", "does not exist"),
    ],
)
async def test_what_cannot_be_searched_is_told(
    sandbox: LiveSandbox, pattern: str, path: str, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await SearchFiles(sandbox=sandbox).run(pattern=pattern, path=path)
    assert not (await sandbox.run(["test", "-e", "pwned"])).ok


async def test_nothing_found_is_no_error(sandbox: LiveSandbox) -> None:
    assert (await SearchFiles(sandbox=sandbox).run(pattern="x")).text == "No line matches."


async def test_a_file_is_read_as_it_is_or_some_of_its_lines(tree: LiveSandbox) -> None:
    tool = ReadFile(sandbox=tree)
    whole = await tool.run(path="src/b.py")
    assert (whole.text, whole.lines) == ("from a import area\nAREA = area(1, 2)", 2)
    part = await tool.run(path="a.py", first_line=4, last_line=99)
    assert (part.first_line, part.last_line, part.lines) == (4, 5, 5)
    assert part.text == "def area(width, height):\n    return width * height"
    for arguments in ({"first_line": 6}, {"first_line": 0}, {"first_line": 3, "last_line": 2}):
        with pytest.raises(ToolError):
            await tool.run(path="a.py", **arguments)
    with pytest.raises(ToolError, match="binary"):
        await tool.run(path="data.bin")


async def test_a_file_is_written_whole_and_its_path_is_never_a_command(
    sandbox: LiveSandbox,
) -> None:
    tool = WriteFile(sandbox=sandbox)
    for path in ("new/folder/a.txt", "with space; touch pwned", "-rf", "$(touch pwned)", "ü'\""):
        result = await tool.run(path=path, content="héllo\n")
        assert result.bytes == 7
        assert await sandbox.read(path) == "héllo\n".encode()
    assert not (await sandbox.run(["test", "-e", "pwned"])).ok
    assert result.text == "ü'\" was written: 1 line, 7 bytes."


async def test_what_is_no_regular_file_is_told_and_nothing_waits_for_it(
    sandbox: LiveSandbox,
) -> None:
    """Reading a pipe, or a link to a device, would never end."""
    await sandbox.run(["mkfifo", "pipe"])
    await sandbox.run(["ln", "-s", "/dev/zero", "zero"])
    await sandbox.run(["ln", "-s", "circle", "circle"])
    for path in ("pipe", "zero", "circle"):
        with pytest.raises(ToolError) as raised:
            await ReadFile(sandbox=sandbox).run(path=path)
        assert "1024 KiB" not in str(raised.value)
    with pytest.raises(ToolError):
        await WriteFile(sandbox=sandbox).run(path="pipe", content="x")
    assert (await search_files(sandbox, "x", path="pipe")).hits == ()
