"""Files as documents: paths stay inside, and the last word counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rolecraft.messages import Message
from rolecraft.roles.ready.source_files import SourceFile, code_in, files_of, write_files


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a\\b", "x\0", "."])
def test_a_path_out_of_the_project_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="no relative path"):
        SourceFile(path=path, content="")


def test_one_file_has_one_path() -> None:
    assert SourceFile(path="./a//b.py", content="").path == "a/b.py"


def test_the_last_word_on_each_path_counts() -> None:
    said = [
        SourceFile(path="a", content="1").message(),
        Message("a chat about files"),
        SourceFile(path="b", content="2").message(),
        SourceFile(path="a", content="3").message(),
    ]
    assert files_of(said) == {"a": "3", "b": "2"}


def test_a_file_gives_way_to_a_later_folder_and_the_reverse() -> None:
    """So that the files of a team can always be laid out, whatever it names them."""
    first, second, third = (
        SourceFile(path=path, content="").message() for path in ("a", "a/b", "a")
    )
    assert set(files_of([first, second])) == {"a/b"}
    assert set(files_of([first, second, third])) == {"a"}


def test_a_path_of_endless_length_is_refused() -> None:
    with pytest.raises(ValidationError, match="longer than 200 bytes"):
        SourceFile(path="x" * 300, content="")


def test_files_are_written_below_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = write_files({"a/b.py": "ä\n", "c": ""}, tmp_path / "new")
    assert (folder / "a/b.py").read_text("utf-8") == "ä\n"
    with pytest.raises(ValueError, match="no relative path"):
        write_files({"../d": ""}, folder)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("x = 1", "x = 1\n"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Here it is:\n```py\nx = 1\ny = 2\n```\nRun it:\n```sh\npython x\n```", "x = 1\ny = 2\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1  # the answer was cut off", "x = 1  # the answer was cut off\n"),
        ("```x = 1```", "x = 1\n"),
        ("```python\n```", "\n"),  # such as `__init__.py`
        ("````md\n# Use\n```sh\npython x\n```\n````", "# Use\n```sh\npython x\n```\n"),
        (
            '```py\ndef f():\n    """\n    ```\n    """\n```',
            'def f():\n    """\n    ```\n    """\n',
        ),
        ("", "\n"),
    ],
)
def test_code_is_the_longest_block_of_an_answer(answer: str, code: str) -> None:
    assert code_in(answer) == code


@given(st.text(st.characters(exclude_characters="`\r", exclude_categories=["Cs"])))
def test_fenced_code_comes_out_as_it_went_in(code: str) -> None:
    assert code_in(f"Sure.\n```python\n{code}\n```\n").strip("\n") == code.strip("\n")


@given(st.text("`~\n x", max_size=40))
def test_a_file_that_is_shown_can_be_read_again_whatever_is_in_it(content: str) -> None:
    shown = str(SourceFile(path="a.md", content=content))
    assert code_in(shown).strip("\n").rstrip() == content.strip("\n").rstrip()
