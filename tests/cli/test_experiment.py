"""`rolecraft experiment`: estimate, table, what it says of errors, and that it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import re

import pytest

from rolecraft import FunctionModel
from rolecraft.cli._exits import ExitCode
from rolecraft.experiments import experiment, gsm_plus, maths_chat

ROWS = [
    {
        "question": f"What is {number} and {number}?",
        "solution": f"#### {2 * number}",
        "answer": str(2 * number),
        "perturbation_type": "adding operation",
        "seed_question": "",
        "seed_solution": "",
        "seed_answer": "",
    }
    for number in range(4)
]


def knows(provider, body):
    """A sum if it was told to verify, or if the sum is 0; while down no answer to the last one."""
    system, problem = (message["content"] for message in body["messages"][:2])
    number = int(re.search(r"What is (\d+) and", problem)[1])
    if provider.down and number == 3:
        return 400, "no such problem"
    right = "# Verification" in system or number == 0
    return rf"\boxed{{{2 * number if right else -1}}}"


@pytest.fixture
def provider(provider_that):
    served = provider_that(knows)
    served.down = True
    return served


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "gsm.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def test_the_estimate_is_said_and_nothing_is_played(cli, rows, tmp_path):
    result = cli("experiment", "maths-chat", "--tasks", rows, "-n", 6, "--estimate", "--json")
    assert result.code == ExitCode.OK
    # Four problems, six times: one call at least for two of the variants, three for the third.
    assert result.lines == [{"runs": 72, "calls_at_least": 24 + 24 + 72, "expected": None}]
    assert "72 runs to play: at least 120 model calls." in result.err
    assert not (tmp_path / "experiment").exists()


def test_our_own_tasks_are_32_for_each_team(cli):
    for team, calls in (("maths-chat", 32 * 5), ("software-company", 32 * 19)):
        (line,) = cli("experiment", team, "--estimate", "--json").lines
        assert line == {"runs": 96, "calls_at_least": calls, "expected": None}


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["maths-chat"], "Say which model plays: `--model MODEL`", ExitCode.USAGE),
        (["maths-chat", "--variant", "toplogy"], "Did you mean 'topology'?", ExitCode.ERROR),
        (["maths-chat", "--tasks", "none.jsonl"], "no data set `none.jsonl`", ExitCode.ERROR),
        (["chess"], "maths-chat", ExitCode.USAGE),
        (["maths-chat", "--model", "openai/m"], "OPENAI_API_KEY", ExitCode.ERROR),
    ],
)
def test_what_is_wrong_is_one_line(cli, without_keys, tmp_path, arguments, says, code):
    result = cli("experiment", *arguments)
    assert result.code == code
    assert says in result.err
    assert not (tmp_path / "experiment").exists()


@pytest.mark.slow
def test_an_experiment_goes_on_and_its_failures_can_be_compared(process, rows, provider):
    """Over a real provider on this machine: one problem fails at first."""
    env = {**os.environ, "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    command = ["experiment", "maths-chat", "--model", "openai/m", "--tasks", rows, "--variant"]
    command += ["prompt", "--out", "out"]
    first = process(*command, env=env)
    assert first.code == ExitCode.INCOMPLETE, first.err
    assert "2 runs broke off, such as out/runs/baseline/gsm-plus-4/r1.jsonl" in first.err
    assert "no such problem" in first.err
    assert "Go on, with a higher limit where one was reached: rolecraft experiment" in first.out
    before, provider.down = len(provider.asked), False

    second = process(*command, "--annotate", "--json", env=env)
    assert second.code == ExitCode.OK, second.err
    assert len(provider.asked) - before == 2, "only the two runs that had broken off were played"
    assert (
        "2 runs to play: at least 2 model calls; by the runs that are over about 2, 24 tokens"
        in second.err
    )
    (line,) = second.lines
    assert [row["correct_percent"] for row in line["rows"]] == [25.0, 100.0]
    assert line["rows"][1]["to_baseline"]["p"] == 0.25  # three problems differ, 2 of 8
    assert line["failures"]["prompt"]["paired"] is True

    third = process(*command, env=env)
    assert third.code == ExitCode.OK
    assert "Every run is over already" in third.err
    assert "100.00 ± 0.00" in third.out
    assert len(provider.asked) - before == 2


@pytest.fixture
def played(rows, tmp_path, monkeypatch):
    """A folder in which every run of two variants is over, as the model `openai/m`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def answer(call):
        number = int(re.search(r"What is (\d+) and", call.messages[1].content)[1])
        right = "# Verification" in call.messages[0].content or number == 0
        return rf"\boxed{{{2 * number if right else -1}}}"

    asyncio.run(
        experiment(
            variants=maths_chat()[:2],
            tasks=gsm_plus(rows),
            folder=tmp_path / "out",
            model=FunctionModel(answer, name="openai/m"),
        )
    )
    return [
        "maths-chat",
        "--model",
        "openai/m",
        "--tasks",
        rows,
        "--variant",
        "prompt",
        "-o",
        "out",
    ]


def test_a_folder_that_is_whole_is_shown_and_asks_nobody(cli, played, tmp_path):
    result = cli("experiment", *played)
    assert result.code == ExitCode.OK
    assert "Every run is over already; nothing is played." in result.err
    assert "25.00 ± 25.00" in result.out
    assert "+75.00   0.25" in result.out
    assert "Why runs failed: rolecraft report out/runs" in result.out
    assert (tmp_path / "out" / "results.md").is_file()
    compared = cli("compare", "out/runs/baseline", "out/runs/prompt", "--json")
    assert compared.lines[0]["paired"] is True, "compare pairs the runs of one task"


def test_labels_of_the_journals_are_compared(cli, played, tmp_path):
    labels = tmp_path / "labels.jsonl"
    assert cli("annotate", "out/runs", "--out", labels).code == ExitCode.OK
    (line,) = cli("experiment", *played, "--labels", labels, "--json").lines
    by_detectors = cli("experiment", *played, "--annotate", "--json").lines[0]
    assert line["failures"]["prompt"]["modes"] == by_detectors["failures"]["prompt"]["modes"]
    assert cli("experiment", *played, "--annotate").out.count("verification.absent") == 1


def test_another_model_in_the_same_folder_is_refused(cli, played):
    played[2] = "openai/other"
    result = cli("experiment", *played)
    assert result.code == ExitCode.ERROR
    assert "is an experiment with model 'openai/m', not 'openai/other'" in result.err
