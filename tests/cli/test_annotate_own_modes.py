"""`rolecraft annotate --modes FILE.py`: detectors of one's own, on the command line."""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.trajectories import Event, Trajectory


@pytest.fixture
def project(cli, tmp_path):
    """A project as `rolecraft new` makes it, with a run in which a headline is too long."""
    assert cli("new", "desk").code == ExitCode.OK
    said = "Approved: A headline that goes on and on and on and on and on and on"
    events = [
        Event("message", role="user", content="Anything", to=("Editor",), seq=0),
        Event("message", role="Editor", content=said, seq=1),
    ]
    Trajectory("long", {}, events).save(tmp_path / "desk" / "runs" / "long.jsonl")
    return tmp_path / "desk"


def test_the_rules_of_a_project_look_at_its_runs(process, project):
    modes = ["--modes", "failure_taxonomy/modes.py"]
    result = process("annotate", "runs", *modes, "--json", cwd=project)
    assert result.code == ExitCode.OK, result.err
    (line,) = result.lines
    own = [finding for finding in line["findings"] if finding["source"] == "detector.too_long"]
    assert [(f["verdict"], f["role"], f["events"]) for f in own] == [("present", "Editor", [1])]
    assert "repetition" in {finding["mode"] for finding in line["findings"]}


def test_a_file_without_rules_is_wrong_usage(process, project):
    (project / "empty.py").write_text("")
    for name, said in (("empty.py", "has no `RULES`"), ("nothing.py", "There is no file")):
        result = process("annotate", "runs", "--modes", name, cwd=project)
        assert result.code == ExitCode.USAGE
        assert said in result.err


def test_an_error_in_such_a_file_comes_with_its_traceback(process, project):
    (project / "broken.py").write_text("RULES = [1 / 0]\n")
    result = process("annotate", "runs", "--modes", "broken.py", cwd=project)
    assert result.code == ExitCode.ERROR
    assert "RULES = [1 / 0]" in result.err
