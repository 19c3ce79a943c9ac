"""A candidate's texts, patch and lines, made from its edits and held against git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.synthesis.candidates import Candidate, Edit, candidate_id


def candidate(*edits: Edit) -> Candidate:
    return Candidate(id="x", modifier="m", entity="a.py::f", edits=edits, key="k")


def changed_by_git(
    folder: Path, files: dict[str, str], patch: str, *options: str
) -> dict[str, str]:
    """The files after `git apply`, in a folder of their own."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    (folder / "p.diff").write_bytes(patch.encode())
    done = subprocess.run(
        ["git", "apply", *options, "p.diff"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{patch}"
    return {
        path: (folder / path).read_bytes().decode() if (folder / path).exists() else ""
        for path in files
    }


pieces = st.sampled_from(
    ["a\n", "a\n", "b\n", "\n", "c\r\n", "é\n", "\x0c", "d", "\r", "\u2028", "  e\n"]
)
texts = st.lists(pieces, max_size=24).map("".join)


@st.composite
def edited(draw: st.DrawFn, path: str) -> tuple[str, list[Edit]]:
    text = draw(texts)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edits = [
        Edit(path, start, end, draw(texts))
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]
    return text, edits


@given(edited("a.py"), edited("pkg/b c.py"))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_git_makes_the_texts_of_a_patch_and_its_reverse_the_clean_files(
    tmp_path_factory: pytest.TempPathFactory,
    one: tuple[str, list[Edit]],
    two: tuple[str, list[Edit]],
) -> None:
    """Whatever the line ends, with or without one at the end, empty files, several hunks."""
    files = {"a.py": one[0], "pkg/b c.py": two[0]}
    made = candidate(*one[1], *two[1])
    patch = made.patch(files.__getitem__)
    expected = {**files, **made.texts(files.__getitem__)}
    if patch:
        folder = tmp_path_factory.mktemp("apply")
        assert changed_by_git(folder, files, patch) == expected
        assert changed_by_git(folder, expected, patch, "-R") == files
    else:
        assert expected == files


def test_a_patch_has_three_lines_of_context_and_the_names_that_git_gives() -> None:
    text = "".join(f"{number}\n" for number in range(1, 21))
    start = text.index("10\n")
    assert candidate(Edit("a.py", start, start + 3, "ten\n")).patch({"a.py": text}.__getitem__) == (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -7,7 +7,7 @@\n"
        " 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
    )


def test_edits_far_from_each_other_are_hunks_of_their_own() -> None:
    text = "".join(f"{number}\n" for number in range(1, 41))
    far = candidate(
        Edit("a.py", 0, 2, ""), Edit("a.py", text.index("30\n"), text.index("31\n"), "x\ny\n")
    )
    patch = far.patch({"a.py": text}.__getitem__)
    assert [line for line in patch.splitlines() if line.startswith("@@")] == [
        "@@ -1,4 +1,3 @@",
        "@@ -27,7 +26,8 @@",
    ]


@pytest.mark.parametrize("path", ["a b.py", "pkg/ä.py", 'say "x".py', "back\\slash.py", "tab\t.py"])
def test_a_path_with_odd_characters_is_written_as_git_reads_it(tmp_path: Path, path: str) -> None:
    made = candidate(Edit(path, 0, 1, "b"))
    assert changed_by_git(tmp_path, {path: "a\n"}, made.patch({path: "a\n"}.__getitem__)) == {
        path: "b\n"
    }


def test_a_file_that_is_not_there_yet_is_made_and_taken_away_again(tmp_path: Path) -> None:
    made = candidate(Edit("new/x.py", 0, 0, "1\n2\n"))
    patch = made.patch(lambda path: "")
    assert changed_by_git(tmp_path / "a", {"other": ""}, patch) == {"other": ""}
    assert (tmp_path / "a/new/x.py").read_text() == "1\n2\n"
    assert changed_by_git(tmp_path / "b", {"new/x.py": "1\n2\n"}, patch, "-R") == {"new/x.py": ""}


@pytest.mark.parametrize(
    ("edit", "lines"),
    [
        (Edit("a.py", 2, 3, "x"), [2]),  # within a line
        (Edit("a.py", 2, 4, "x\n"), [2]),  # a whole line
        (Edit("a.py", 2, 6, ""), [2, 3]),  # two of them are gone
        (Edit("a.py", 4, 4, "x\n"), [2, 3]),  # between two
        (Edit("a.py", 0, 0, "x\n"), [1]),
        (Edit("a.py", 8, 8, "x\n"), [4]),
        (Edit("a.py", 1, 1, "x"), [1]),  # in the middle of one
        (Edit("a.py", 0, 8, "1\n2\nx\n4\n"), [3]),  # lines that it puts back are not changed
        (Edit("a.py", 0, 4, "1\nx\n2\n"), [1, 2]),  # and what is left is between two
        (Edit("a.py", 3, 5, ""), [2, 3]),  # joins two
    ],
)
def test_the_lines_are_those_that_change_or_that_an_insertion_stands_between(
    edit: Edit, lines: list[int]
) -> None:
    assert candidate(edit).lines({"a.py": "1\n2\n3\n4\n"}.__getitem__) == {"a.py": lines}


def test_lines_are_counted_as_python_counts_them() -> None:
    """A form feed and a Unicode separator end none; `\\r` does."""
    text = "a\x0cb\u2028c\nd\re\r\nf\n"
    start = text.index("f")
    assert candidate(Edit("a.py", start, start + 1, "g")).lines(lambda path: text) == {"a.py": [4]}


@pytest.mark.parametrize(
    "edits",
    [
        [Edit("a.py", 0, 9, "")],
        [Edit("a.py", 3, 2, "")],
        [Edit("a.py", 0, 3, ""), Edit("a.py", 2, 4, "")],
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit]) -> None:
    wrong = candidate(*edits)
    for use in (wrong.texts, wrong.patch, wrong.lines):
        with pytest.raises(UsageError, match=r"does not fit `a\.py`"):
            use(lambda path: "1\n2\n")


def test_an_id_tells_the_change() -> None:
    edit = Edit("a.py", 0, 1, "x")
    assert candidate_id("toy", "m", [edit]) == candidate_id("toy", "m", [edit])
    assert candidate_id("toy", "m", [edit]).startswith("toy__m__")
    assert candidate_id("toy", "m", [edit]) != candidate_id("toy", "m", [Edit("a.py", 0, 1, "y")])
