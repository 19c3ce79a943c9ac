"""`rolecraft evaluate`: table, files, refusals in words of options, and that it goes on."""

from __future__ import annotations

import json
import re

import pytest

from rolecraft.cli._exits import ExitCode

SCENARIOS = '''
"""Sums: a team of three and an assistant alone, also with models of their own."""

import json
import re
from pathlib import Path
from dataclasses import replace

from rolecraft import FunctionModel, Role, Task, Team
from rolecraft.models import Completion
from rolecraft.rewards import reward
from rolecraft.sandboxes import Execution, FunctionSandbox
from rolecraft.scenarios.maths_chat import chat, team
from rolecraft.trajectories.events import Usage

BOX = FunctionSandbox(lambda call: Execution(exit_code=0, stdout="a number\\n"))


def sum_of(name, n):
    return Task(name, f"What is {n} and {n}?", {"answer": str(2 * n)})


class Sums:
    def __init__(self, most=100, apart=1000):
        self.most, self.apart = most, apart

    def sample(self, count, *, seed=0, split="train"):
        first = 0 if split == "test" else self.apart
        return [sum_of(f"{split}-{n}", first + n) for n in range(min(count, self.most))]


def answer(call):
    number = int(re.search(r"What is (\\d+) and", call.messages[1].content)[1])
    with Path("asked").open("a") as file:
        file.write(f"{call.sampling.temperature} {call.sampling.max_tokens}\\n")
    text = rf"\\boxed{{{2 * number}}}"
    if call.role == "Assistant" and number % 3 == 0:
        text = r"\\boxed{-1}"
    elif call.role == "Coder":
        text = "```python\\nprint('a number')\\n```"
    elif call.role == "Verifier":
        text = json.dumps({"reason": "so", "accepted": True, "answer": str(2 * number)})
    return Completion(text=text, usage=Usage(10, 2, None, 1))


def with_models(scenario):
    def roles():
        made = list(scenario.team())
        for role in made:
            role.model = FunctionModel(answer, name="own")
        return made

    return replace(scenario, team=roles)


solo = replace(chat(sandbox=BOX), name="solo", tasks=Sums())
sums = replace(team(sandbox=BOX), name="sums", tasks=Sums(), alone=solo)
own_solo = with_models(solo)
own = replace(with_models(sums), alone=own_solo)
lonely = replace(sums, name="lonely", alone=None)
empty = replace(solo, name="empty", tasks=Sums(0))
leaky = replace(solo, name="leaky", tasks=Sums(apart=0))
crew = Team([Role(name="Ann", actions=[])])


def unmeasured(*args, **options):
    made = solo.environment(*args, **options)
    del made.about["outcome"]
    return made


@reward
def nonsense(signals):
    return signals["no.such"]


broken = replace(own_solo, name="broken", environment=unmeasured, reward=nonsense)
model = FunctionModel(answer, name="a model")
'''


def knows(provider, body):
    """Sums that 3 does not divide, unless it is the model `strong` or has a team around it.

    While the provider is down it has no answer for 4 and 4.
    """
    number = int(re.search(r"What is (\d+) and", json.dumps(body["messages"]))[1])
    system = body["messages"][0]["content"]
    if body["model"] == "nobody":
        return 404, "no such model"
    if provider.down and number == 4:
        return 400, "not now"
    if "verifier" in system:
        return json.dumps({"reason": "so", "accepted": True, "answer": str(2 * number)})
    if "coder" in system:
        return "```python\nprint('a number')\n```"
    alone = "problem solver" not in system and body["model"] != "strong"
    return rf"\boxed{{{-1 if alone and number % 3 == 0 else 2 * number}}}"


@pytest.fixture
def provider(provider_that):
    return provider_that(knows)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SCENARIOS)
    return path


@pytest.fixture
def evaluate(process, provider, file, tmp_path):
    """`evaluate("sums", ...)` with models of the provider, as a process of its own."""

    def call(name: str, *arguments: object):
        place = ("--base-url", provider.url, "--out", tmp_path / "out")
        return process("evaluate", f"{file}:{name}", *place, *arguments)

    return call


def test_a_team_against_its_baselines_as_table_page_plot_and_json(cli, file, tmp_path):
    out = tmp_path / "out"
    arguments = (
        "evaluate", f"{file}:own", "--out", out, "--tasks", 6, "--attempts", 2,
        "--temperature", 0.25, "--max-tokens", 99, "--turns", 9, "--baseline", "single",
        "--baseline", "best-of-n", "--baseline", "vote", "--k", 1, "--k", 2,
    )  # fmt: skip
    shown = cli(*arguments)
    assert shown.code == ExitCode.OK, shown.err
    assert re.search(r"sums@own +6 +12 +100\.0 \[61\.0, 100\.0\]", shown.out)
    assert re.search(r"solo@own +6 +12 +66\.7 \[30\.0, 90\.3\]", shown.out)
    assert re.search(r"best of 3 solo@own +6 +36 +66\.7", shown.out)
    for said in ("attempts at each task: 2", "temperature: 0.25", "tokens an answer: 99"):
        assert said in shown.out
    assert "$ unknown: the model's price is not known; it is not 0." in shown.out
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["0.25 99"] * (12 * 3 + 36)

    again = cli(*arguments, "--json")
    assert len((tmp_path / "asked").read_text().splitlines()) == len(asked)  # it is all there
    (line,) = again.lines
    assert line["setting"]["turns"] == 9
    assert line["equal_cost"][0] == {
        "team": "sums@own",
        "single": "solo@own",
        "unit": "tokens",
        "team_cost": 36.0,
        "single_cost": 12.0,
        "n": 3,
        "ratio": 1.0,
    }
    written = json.loads((out / "evaluation.json").read_text())
    assert line == written | {"folder": str(out)}
    assert "## Differences" in (out / "evaluation.md").read_text()
    page = (out / "evaluation.html").read_text()
    assert page.count("<circle") == 4
    assert "sums@own: 100.0%, 95 % from 61.0% to 100.0%; 6 tasks" in page


@pytest.mark.slow
def test_two_models_and_a_scenario_more(evaluate, file):
    shown = evaluate(
        "solo", "--scenario", f"{file}:sums", "--model", "openai/weak", "--model", "openai/strong",
        "--tasks", 6, "--json",
    )  # fmt: skip
    (line,) = shown.lines
    values = {row["name"]: row["success"]["value"] for row in line["rows"]}
    assert values == {
        "solo@openai/weak": pytest.approx(4 / 6),
        "solo@openai/strong": 1.0,
        "sums@openai/weak": 1.0,
        "sums@openai/strong": 1.0,
    }
    compared = [(each["first"], each["second"]) for each in line["contrasts"]]
    assert ("solo@openai/weak", "solo@openai/strong") in compared
    assert ("solo@openai/weak", "sums@openai/weak") in compared
    assert all(each["p_holm"] >= each["p"] for each in line["contrasts"])


@pytest.mark.slow
def test_what_broke_off_is_open_and_the_same_command_goes_on(evaluate, provider):
    provider.down = True
    arguments = ("solo", "--model", "openai/weak", "--tasks", 6)
    first = evaluate(*arguments)
    assert first.code == ExitCode.INCOMPLETE
    assert "1 run broke off" in first.err
    assert "Go on, with a higher limit where one was reached: rolecraft" in first.out
    provider.down = False
    before = len(provider.asked)
    assert evaluate(*arguments).code == ExitCode.OK
    assert len(provider.asked) == before + 1


@pytest.mark.slow
def test_a_model_that_nobody_has_is_known_to_be_unknown(evaluate):
    shown = evaluate("solo", "--model", "openai/nobody", "--tasks", 2)
    assert shown.code == ExitCode.INCOMPLETE
    assert "no run came to its end, so nothing is known of it" in shown.err
    assert "no such model" in shown.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sums", "--k", 3, "--attempts", 2], "pass@3 wants at least 3 attempts"),
        (["empty"], "`empty` has no tasks in the split 'test'"),
        (["leaky"], "say so: `--seen flag`"),
        (["lonely", "--baseline", "single"], "name one with `--single`"),
        (["sums", "--role-model", "Nobody=openai/weak"], "Nobody"),
        (["sums", "--adapter", "Solver=here"], "no model of this process"),
        (["sums", "--adapter", "Solver"], "write ROLE=PATH"),
        (["sums", "--trained-on", "mine.py"], "names no task"),
        (["sums", "--scenario", "nonsense"], "nonsense"),
        (["crew"], "only a `Scenario` can be evaluated"),
    ],
)
def test_what_cannot_be_meant_is_one_line_that_names_the_option(
    cli, file, provider, tmp_path, arguments, says
):
    name, *rest = arguments
    shown = cli(
        "evaluate", f"{file}:{name}", "--model", "openai/weak", "--base-url", provider.url, *rest
    )
    assert shown.code == ExitCode.USAGE, shown.err
    assert says in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert not (tmp_path / "evaluation").exists()
    assert not provider.asked


def test_without_a_model_it_says_so(cli, file):
    shown = cli("evaluate", f"{file}:sums")
    assert shown.code == ExitCode.USAGE
    assert "Say which model plays: `--model MODEL`." in shown.err


def test_tasks_that_were_seen_are_flagged_or_left_out(cli, file, tmp_path):
    record = tmp_path / "train.jsonl"
    record.write_text('{"prompt": "What is 1 and 1?"}\n')
    common = ("evaluate", f"{file}:own_solo", "--tasks", 3, "--trained-on", record)
    refused = cli(*common)
    assert refused.code == ExitCode.USAGE
    assert "'test-1' is in" in refused.err
    flagged = cli(*common, "--seen", "flag", "--json")
    assert flagged.lines[0]["held_out"]["solo"]["held_out"] is False
    assert "NOT held out" in flagged.err
    dropped = cli(*common, "--seen", "drop", "--json")
    assert dropped.lines[0]["rows"][0]["success"]["tasks"] == 2


def test_a_reward_that_raises_is_told_once_with_its_place_and_with_debug_its_traceback(
    cli, file, tmp_path
):
    common = ("evaluate", f"{file}:broken", "--tasks", 3, "--out", tmp_path / "out")
    shown = cli(*common)
    assert shown.code == ExitCode.INCOMPLETE, shown.err
    told = re.search(r"3 runs broke off, such as .*: MissingSignal: .*", shown.err)
    assert told
    assert re.search(r"mine\.py:\d+ in nonsense", told[0])
    assert "Traceback" not in shown.err
    again = cli(*common, "--debug")
    assert again.err.count("Traceback") == 1
    assert 'return signals["no.such"]' in again.err
    page = (tmp_path / "out" / "evaluation.md").read_text()
    assert page.count("broke off, such as") == 1


@pytest.mark.parametrize("name", ["model", "answer"])
def test_a_stand_in_of_a_file_plays_as_a_model(cli, file, tmp_path, name):
    """As an object, and as a function that answers calls."""
    shown = cli("evaluate", f"{file}:solo", "--model", f"{file}:{name}", "--tasks", 3, "--json")
    assert shown.code == ExitCode.OK, shown.err
    (row,) = shown.lines[0]["rows"]
    assert row["name"] == f"solo@mine.py:{name}"
    assert row["success"]["value"] == pytest.approx(2 / 3)
    refused = cli("evaluate", f"{file}:solo", "--model", f"{file}:crew")
    assert refused.code == ExitCode.USAGE
    assert "Name a `Model`, or a function of one `ModelCall`" in refused.err
