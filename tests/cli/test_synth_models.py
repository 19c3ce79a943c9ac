"""`rolecraft synth describe`, `write` and `combine`, as processes that ask a server."""

from __future__ import annotations

import pytest

from rolecraft.cli._output import Output
from rolecraft.cli._synth_then import then_validate
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
    assert done.code == 1, "nothing came of it"
    assert "no such model" in done.err
    assert not folder.texts.read_bytes()


def test_a_model_whose_texts_are_all_refused_is_no_success_and_the_reasons_are_told(
    cli, folder, tmp_path
):
    """ "28 texts by templates.", exit code 0, and not a word that the model was asked."""
    (tmp_path / "models.py").write_text('def short(call):\n    return "Sorry."\n')
    done = cli("synth", "describe", folder.path, "--model", "models.py:short")
    assert done.code == 3
    assert "1 text by templates." in done.out
    assert "1 answer could not be used: its length is wrong (the first: 7 characters" in done.out
    assert "a text." not in done.out.partition("Cost: ")[2], "the model wrote none"
    assert "Next:" not in done.err


def test_a_task_that_never_had_a_text_was_not_described_before(cli, folder):
    """Two tasks in C++ "had been described before", and the next command was one that fails."""
    with Ledger(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        verdicts.append(Verdict(candidate="sums__op__1", status="valid"))
    cli("synth", "describe", folder.path)
    done = cli("synth", "describe", folder.path, "--show")
    assert "described before" not in done.out
    assert "1 task without a text, as before: the failing tests print nothing." in done.out
    assert "There is no text to show." in done.out
    assert "Next:" not in done.err


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


FUNCTIONS = "\n\n".join(
    f"def add_{name}(number):\n    more = number + {index}\n    return more\n"
    for index, name in enumerate(("none", "one", "two", "three", "four"))
)


@pytest.fixture
def functions(folder):
    """The folder with more functions to ask about, and no bug yet."""
    folder.candidates.unlink()
    folder.verdicts.unlink()
    (folder.source / "sums.py").write_text(f"{CODE}\n\n{FUNCTIONS}")
    return folder


USELESS = """
SAID = iter(["Sorry.", "Sorry.", "BUG: none", "BUG: none", "BUG: none", "BUG: none"])


def useless(call):
    return next(SAID)
"""


def test_answers_that_are_all_useless_are_told_by_kind_and_are_no_success(cli, functions, tmp_path):
    """ "0 candidates", the next command and exit code 0 were all there was of three answers."""
    (tmp_path / "models.py").write_text(USELESS)
    asked = ("--model", "models.py:useless", "--most", "3", "--concurrency", "1")
    done = cli("synth", "write", functions.path, *asked)
    assert done.code == 1, done.err
    assert "1 answer could not be used: it has no line that begins with `BUG:`." in done.out
    assert "2 answers could not be used: it is not one block of code (the first: " in done.out
    assert "Next:" not in done.err
    done = cli("synth", "write", functions.path, *asked)
    assert done.code == 0
    assert "0 candidates; 3 questions had been asked before." in done.out
    assert "Cost" not in done.out, "nothing was asked"


@pytest.mark.slow
def test_a_server_that_refuses_each_question_is_asked_three_and_told_once(
    process, provider_that, functions
):
    server = provider_that(lambda server, body: (404, "no such model"))
    asked = ("--most", "6", "--concurrency", "1")
    done = process("synth", "write", functions.path, *_model(server), *asked)
    assert (done.code, len(server.asked)) == (1, 3)
    assert done.err.count("no such model") == 1
    assert "it answered no question" in done.err
    assert not functions.written.read_bytes(), "nothing counts as asked"


@pytest.mark.slow
def test_a_model_of_no_known_price_has_one_by_an_option(process, provider_that, folder):
    """The way out named Python: `prices=(...)`."""
    folder.candidates.unlink()
    folder.verdicts.unlink()
    server = provider_that(lambda server, body: BUG)
    at = ("--model", "openai/mine", "--base-url", server.url, "--most", "1", "--usd", "1")
    done = process("synth", "write", folder.path, *at)
    assert (done.code, server.asked) == (2, [])
    assert "Say what it costs with `--price IN,OUT`." in done.err
    done = process("synth", "write", folder.path, *at, "--price", "10,20")
    assert done.code == 0, done.err
    assert "Cost: $0.000140 in all, $0.000140 a candidate." in done.out


@pytest.mark.slow
def test_a_server_that_is_not_there_ends_it_with_the_options_that_help(process, functions):
    at = ("--model", "openai/mine", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    done = process("synth", "write", functions.path, *at)
    assert done.code == 1
    assert "Is it running? Check `--base-url 'http://127.0.0.1:9/v1'`." in done.err


@pytest.mark.parametrize("given", [["--price", "1"], ["--price", "a,b"], ["--price", "-1,2"]])
def test_a_price_that_is_none_is_refused(cli, folder, given, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    done = cli("synth", "write", folder.path, "--model", "openai/m", *given)
    assert done.code == 2
    assert "such as 0.15,0.6" in done.err


def test_an_option_about_a_model_wants_one(cli, folder):
    done = cli("synth", "write", folder.path, "--patches", folder.path, "--timeout", "3")
    assert done.code == 2
    assert "name it with `--model`" in done.err


PATCH = """--- a/sums.py
+++ b/sums.py
@@ -1,4 +1,4 @@
 def double(number):
     \"\"\"Return a number twice.\"\"\"
-    twice = number + number
+    twice = number
     return twice
"""


def test_a_patch_that_fits_the_other_way_round_says_so_and_nothing_comes_next(cli, folder):
    folder.candidates.unlink()
    folder.verdicts.unlink()
    patches = folder.path.parent / "patches"
    patches.mkdir()
    (patches / "one.patch").write_text(PATCH)
    for _ in range(2):
        done = cli("synth", "write", folder.path, "--patches", patches)
        assert done.code == 1
        assert "the other way round it does: `--polarity bug`" in done.err
        assert "Next:" not in done.err
    (patches / "words.patch").write_text("just words")
    done = cli("synth", "write", folder.path, "--patches", patches, "--polarity", "bug")
    assert done.code == 3, "one of two"
    assert f"Next: rolecraft synth validate {folder.path}" in done.err.replace("\n", " ")


def test_what_comes_next_is_what_is_not_done_yet(folder, capsys):
    """`validate` was named when all was validated, and when there was nothing to validate."""
    output = Output(json=False)
    then_validate(folder.path, output)
    assert f"Next: rolecraft synth describe {folder.path}" in capsys.readouterr().err.replace(
        "\n", " "
    )
    folder.verdicts.unlink()
    then_validate(folder.path, output)
    assert f"Next: rolecraft synth validate {folder.path}" in capsys.readouterr().err.replace(
        "\n", " "
    )
    folder.candidates.unlink()
    then_validate(folder.path, output)
    assert not capsys.readouterr().err
