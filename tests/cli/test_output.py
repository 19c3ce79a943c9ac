"""Output: JSON that every parser reads, and progress that needs no terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.cli._output import Output, printable
from rolecraft.errors import TraceError


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(), st.floats() | st.text(st.characters()) | st.none()))
def test_every_result_is_one_line_of_strict_json(capsys, record):
    """Infinities and NaN become null, broken characters are escaped."""
    Output(json=True).result(record)
    out = capsys.readouterr().out
    assert out.endswith("\n")
    assert len(out.split("\n")) == 2

    def refuse(constant: str):
        raise AssertionError(constant)

    assert json.loads(out, parse_constant=refuse).keys() == {
        key.encode("utf-8", "backslashreplace").decode() for key in record
    }


def test_without_json_there_are_no_results(capsys):
    Output(json=False).result({"a": 1})
    assert capsys.readouterr().out == ""


def test_with_json_what_people_read_goes_to_stderr(capsys):
    output = Output(json=True)
    output.say("hello")
    output.table("title", ["a"], [["cell"]])
    said = capsys.readouterr()
    assert said.out == ""
    assert "hello" in said.err
    assert "cell" in said.err


def test_where_there_is_no_terminal_no_cell_is_broken(capsys, monkeypatch):
    """A log of CI is searched for file names."""
    monkeypatch.setenv("COLUMNS", "80")
    name = "a/" + "long-folder-name/" * 12 + "run.jsonl"
    Output(json=False).table("title", ["trace", "n"], [[name, 3], ["b", 4]], numeric=1)
    lines = capsys.readouterr().out.splitlines()
    assert any(name in line and line.rstrip().endswith("3") for line in lines)


def test_on_a_narrow_terminal_names_of_modes_stay_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    names = [f"annotator-{number}" for number in range(6)]
    output = Output(json=False)
    assert output.page.is_terminal
    output.table("t", ["mode", *names], [["no_clarification", *["10 of 12"] * 6]], whole=1)
    assert "no_clarification" in capsys.readouterr().out


def test_the_list_of_formats_is_said_once(capsys):
    output = Output(json=False)
    for name in ("a", "b"):
        listed = " Known formats: `x`, one; `y`, two."
        output.warn(TraceError(name, "its format is not known.", listed=listed))
    err = capsys.readouterr().err
    assert "`a`: its format is not known. Known formats: `x`, one; `y`, two." in err
    assert err.endswith("`b`: its format is not known.\n")


def test_a_warning_is_said_whole_whatever_words_it_has(capsys):
    """It was cut once where it spoke of known formats."""
    output = Output(json=False)
    for name in ("a", "b"):
        output.warn(f"`{name} Known formats: none.txt` is empty.")
    assert "`b Known formats: none.txt` is empty." in capsys.readouterr().err


def test_without_json_it_goes_to_stdout(capsys):
    Output(json=False).say("hello")
    assert capsys.readouterr().out == "hello\n"


def test_user_code_cannot_print_between_the_json_lines(capsys):
    with Output(json=True) as output:
        print("user")
        output.result({"a": 1})
    print("after")
    said = capsys.readouterr()
    assert said.out == '{"a": 1}\nafter\n'
    assert said.err == "user\n"


NOISY = """
import ctypes, os, subprocess, sys
from rolecraft.cli._output import Output

early = sys.stdout
print("before")
try:
    with Output(json=True) as output:
        os.system("echo shell")
        subprocess.run([sys.executable, "-c", "print('child')"])
        ctypes.CDLL(None).puts(b"library")
        os.write(1, b"descriptor\\n")
        print("kept", file=early)
        output.result({"a": "\\u00fc"})
        raise KeyError
except KeyError:
    print("after")
"""


def test_neither_can_programs_that_it_starts_nor_libraries_in_c():
    """Also what is still in their buffers when the command ends; stdout is as before after it."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", NOISY]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, env=buffered)
    assert done.stdout.splitlines() == ["before", '{"a": "\u00fc"}', "after"]
    said = {"shell", "child", "library", "descriptor", "kept"}
    assert set(done.stderr.splitlines()) == said


def test_progress_without_a_terminal_is_a_line_at_every_tenth(capsys):
    with Output(json=False).bar("Work", 40) as progress:
        for number in range(40):
            progress(f"at {number}")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0] == "Work: 4 of 40, at 3"
    assert lines[-1] == "Work: 40 of 40, at 39"


def test_progress_of_fewer_than_ten_steps_has_a_line_for_each(capsys):
    with Output(json=False).bar("Work", 3) as progress:
        for _ in range(3):
            progress("")
    assert capsys.readouterr().err.splitlines() == [f"Work: {n} of 3" for n in (1, 2, 3)]


@given(st.text())
def test_printable_text_keeps_words_and_drops_what_steers_terminals(text):
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
