"""`rolecraft synth describe`, `write` and `combine`, as processes that ask a server."""

from __future__ import annotations

import pytest

from rolecraft.synthesis.candidates import Candidate, Edit
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.verdicts import Verdict

CODE = '''def double(number):
    """Return a number twice."""
    twice = number + number
    return twice
'''
TESTS = """import sums


def test_double():
    assert sums.double(4) == 8
"""
SAID = """Traceback (most recent call last):
  File "/box/tests/test_sums.py", line 5, in test_double
    assert sums.double(4) == 8
           ^^^^^^^^^^^^^^^^^^^
AssertionError: assert 4 == 8
"""
REPORT = "# Wrong sum\n\nWhat should give a number twice gives the number itself: 4 and not 8.\n"
BUG = """BUG: forgets a part

```python
def double(number):
    twice = number
    return twice
```
"""


@pytest.fixture
def folder(tmp_path):
    """A plan, and one valid candidate."""
    made = SynthesisFolder(tmp_path / "out")
    for name, text in {"sums.py": CODE, "tests/test_sums.py": TESTS}.items():
        path = made.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project = Project(
        name="sums", source=str(made.source), code=("sums.py",), tests=("tests/test_sums.py",)
    )
    Plan(project, Suite(outcomes={"tests/test_sums.py::test_double": "passed"})).save(made)
    start = CODE.index(" + number")
    candidate = Candidate(
        id="sums__op__1",
        modifier="remove-operand",
        entity="sums.py::double",
        edits=(Edit("sums.py", start, start + len(" + number"), ""),),
        key="1",
    )
    verdict = Verdict(
        candidate=candidate.id,
        status="valid",
        fail_to_pass=("tests/test_sums.py::test_double",),
        messages={"tests/test_sums.py::test_double": SAID},
    )
    with Ledger(made.candidates, Candidate, key=lambda each: each.id) as candidates:
        candidates.append(candidate)
    with Ledger(made.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(verdict)
    return made


def _model(server):
    return ("--model", "openai/gpt-4o-mini", "--base-url", server.url)


def test_texts_by_a_server_cost_what_is_printed(process, provider_that, folder):
    server = provider_that(lambda server, body: REPORT)
    done = process("synth", "describe", folder.path, *_model(server), "--usd", "1", "--show")
    assert done.code == 0, done.err
    assert "1 text by the model." in done.out
    # 10 prompt tokens at $0.15 and 2 answer tokens at $0.60 a million.
    assert "Cost: $0.000003 in all, $0.000003 a text." in done.out
    assert "gives the number itself" in done.out
    (body,) = server.asked
    asked = str(body["messages"])
    assert "Return a number twice" in asked
    assert "sums.double" not in asked
    assert "test_double" not in asked


def test_texts_without_a_model_need_no_server(cli, folder):
    done = cli("synth", "describe", folder.path, "--json")
    (line,) = done.lines
    assert (line["source"], line["usd"], line["leaks"]) == ("template", None, [])
    assert "func(4)" in line["text"]


@pytest.mark.slow
def test_a_server_that_refuses_leaves_the_texts_for_later(process, provider_that, folder):
    server = provider_that(lambda server, body: (400, "no such model"))
    done = process("synth", "describe", folder.path, *_model(server))
    assert done.code == 3
    assert "no such model" in done.err


def test_bugs_by_a_server_cost_what_is_printed(process, provider_that, folder):
    folder.candidates.unlink()
    server = provider_that(lambda server, body: BUG)
    done = process("synth", "write", folder.path, *_model(server), "--most", "1")
    assert done.code == 0, done.err
    assert "in sums.py::double, $0.000003" in done.out
    assert "Cost: $0.000003 in all, $0.000003 a candidate." in done.out


def test_a_command_line_without_an_author_is_refused(cli, folder):
    assert cli("synth", "write", folder.path).code == 2
    refused = cli("synth", "write", folder.path, "--model", "openai/m", "--patches", folder.path)
    assert refused.code == 2


def test_too_few_bugs_to_combine_is_one_line(cli, folder):
    done = cli("synth", "combine", folder.path)
    assert done.code != 0
    assert "2 valid candidates to combine" in done.err


def test_a_task_without_a_text_has_its_reason_and_the_command_that_comes_next(cli, folder):
    with Ledger(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        said = {"area": "double(4) is 4"}
        verdicts.append(Verdict(candidate="sums__op__1", status="valid", messages=said))
    asked = f"Next: rolecraft synth describe {folder.path} --model MODEL"
    done = cli("synth", "describe", folder.path)
    assert "1 task without a text: nothing can be said of the failing tests without" in done.out
    assert asked in done.err.replace("\n", " ")
    with Ledger(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(Verdict(candidate="sums__op__1", status="valid"))
    done = cli("synth", "describe", folder.path, "--again")
    assert "1 task without a text: the failing tests print nothing." in done.out
    assert asked not in done.err.replace("\n", " "), "there is nothing to tell a model"
