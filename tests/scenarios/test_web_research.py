"""The web-research scenario, played offline from search to reward."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rolecraft import ScriptedModel
from rolecraft.environments.web_research import (
    ResearchGrader,
    ResearchJudge,
    WebResearchEnvironment,
)
from rolecraft.environments.web_research.examples import Example, example_web, examples
from rolecraft.environments.web_research.examples.stand_ins import (
    reference_calls,
    stand_in_judge,
    stand_in_researcher,
)
from rolecraft.errors import ModelUnavailable
from rolecraft.models import Model
from rolecraft.rewards import MissingSignal
from rolecraft.rollouts import PipelineSettings, ScenarioStages, rollouts
from rolecraft.scenarios import web_research
from rolecraft.scenarios.scenario import Episode
from rolecraft.scenarios.web_research import rehearsal, scenario
from rolecraft.trajectories import load
from rolecraft.trajectories.codec import encode_event

EXAMPLES = examples()


async def play(example: Example, *, judge: Model | None = None, **changed: Any) -> Episode:
    """The reference's calls, with the arguments of the last one changed."""

    def plan(each: Example) -> list[tuple[str, dict[str, Any]]]:
        *looks, (tool, arguments) = reference_calls(each)
        return [*looks, (tool, {**arguments, **changed})]

    model = stand_in_researcher(EXAMPLES.values(), plan)
    return await scenario(model=model, judge=judge).play(example.question.task())


def measured(episode: Episode) -> dict[str, float]:
    return {signal.name: signal.value for signal in episode.trajectory.signals}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_reference_answers_every_example_with_evidence(name: str) -> None:
    episode = await rehearsal().play(EXAMPLES[name].question.task())
    assert episode.trajectory.stop_reason == "finished"
    signals = measured(episode)
    assert signals["answer.correct"] == signals["information.quality"] == 1.0
    assert signals["reasoning.chain"] == 1.0
    assert episode.reward.value == pytest.approx(1.0)


async def test_an_answer_without_any_page_read_earns_no_more_than_being_right() -> None:
    model = stand_in_researcher(EXAMPLES.values(), lambda each: reference_calls(each)[-1:])
    episode = await scenario(model=model).play(EXAMPLES["heights"].question.task())
    assert measured(episode)["information.pages"] == 0.0
    assert episode.reward.shares == {"correct": 0.8, "information": 0.0, "reasoning": 0.0}


async def test_a_wrong_answer_never_has_more_than_a_fifth_however_good_its_evidence() -> None:
    episode = await play(EXAMPLES["lens"], answer="Ida Marrow", judge=stand_in_judge())
    signals = measured(episode)
    assert signals["answer.given"] == 1.0
    assert signals["answer.correct"] == 0.0
    assert signals["information.quality"] == 1.0
    assert episode.reward.value <= 0.2


async def test_claims_of_pages_that_were_not_read_count_for_nothing() -> None:
    """The predecessor counted domains in the text of the answer."""
    invented = [
        {"claim": "The lens was given to the Skerry Museum.", "source": f"https://{host}/x"}
        for host in ("nature.com", "bbc.co.uk", "w3.org")
    ]
    episode = await play(EXAMPLES["lens"], steps=invented)
    signals = measured(episode)
    assert signals["information.supported"] == signals["information.quality"] == 0.0
    assert signals["reasoning.chain"] == 0.0
    assert signals["information.domains"] == 2.0


async def test_the_evidence_stands_in_the_record() -> None:
    episode = await rehearsal().play(EXAMPLES["heights"].question.task())
    checks = {event.data["target"]: event for event in episode.trajectory.of("verify")}
    assert list(checks) == ["answer", "information", "reasoning"]
    claim = checks["information"].data["evidence"]["claims"][0]
    assert claim["carried_by"] == "https://www.harrow-lights.example/north-head"
    assert "42 metres" in claim["quote"]
    page = checks["information"].data["evidence"]["pages"][0]
    events = episode.trajectory.events
    assert "42 metres" in events[page["steps"][0]].content
    assert checks["answer"].data["evidence"]["given"] == "13 metres"


async def test_where_the_judge_is_down_there_is_no_reward_and_an_error() -> None:
    """Not 0: a sample that was never judged is no bad sample."""
    down = ScriptedModel([ModelUnavailable("503", model="judge")] * 9, name="judge")
    scene = scenario(
        model=stand_in_researcher(
            EXAMPLES.values(),
            lambda each: [("submit_answer", {"answer": "somebody else", "steps": []})],
        ),
        judge=down,
    )
    task = EXAMPLES["lens"].question.task()
    environment = scene.environment(task, scene.team())
    trajectory = await environment.episode()
    names = {signal.name for signal in trajectory.signals}
    assert "answer.correct" not in names
    (error,) = trajectory.of("error")
    assert error.data["type"] == "InfrastructureFailure"
    assert "503" in error.content
    with pytest.raises(MissingSignal, match=r"answer\.correct"):
        scene.reward(trajectory)


async def test_in_a_pipeline_a_judge_that_is_down_is_no_reward_and_the_others_have_theirs() -> None:
    example, other = EXAMPLES["lens"], EXAMPLES["book"]
    answers = {example.question.id: "somebody else", other.question.id: other.question.answer}
    model = stand_in_researcher(
        EXAMPLES.values(),
        lambda each: [("submit_answer", {"answer": answers[each.question.id], "steps": []})],
    )
    down = ScriptedModel([ModelUnavailable("503", model="judge")] * 9, name="judge")
    stages = ScenarioStages(scenario(model=model, judge=down))
    tasks = [each.question.task() for each in (example, other)]
    found = {
        rollout.task.id: rollout
        async for rollout in rollouts(stages, tasks, PipelineSettings(attempts=1))
    }
    failed, played = found["lens"], found["book"]
    assert failed.reward is None
    assert isinstance(failed.error, MissingSignal)
    assert played.reward == pytest.approx(0.8)


def test_the_command_plays_the_example_and_shows_it(tmp_path: Path) -> None:
    file = Path(web_research.__file__)
    played = rolecraft(tmp_path, "run", f"{file}:rehearsal", "--task", "heights")
    assert "Reward 1 " in played
    rolecraft(tmp_path, "show", "runs/web_research-rehearsal.jsonl", "--html", "run.html")
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "read_page" in page
    assert "The tower is 42 metres tall, the tallest on the islands." in page


def rolecraft(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


async def test_the_same_run_leaves_the_same_bytes() -> None:
    runs = [
        [
            encode_event(event)
            for event in (await rehearsal().play(EXAMPLES["age"].question.task())).trajectory.events
        ]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


async def test_an_episode_that_is_over_is_graded_from_its_record(tmp_path: Path) -> None:
    """A judge need not say the same twice, and is not paid twice."""
    journal = tmp_path / "run.jsonl"
    scene = rehearsal()
    task = EXAMPLES["book"].question.task()
    before = await scene.play(task, journal=journal)
    silent = ScriptedModel([], name="silent")
    again = scenario(model=stand_in_researcher(EXAMPLES.values()), judge=silent, name="rehearsal")
    after = await again.recover(task, journal)
    assert after.reward == before.reward
    assert silent.calls == []


async def test_an_episode_that_could_not_be_judged_is_recovered_as_such(tmp_path: Path) -> None:
    """What was recorded counts; to judge it anew there is `ResearchGrader`."""
    journal = tmp_path / "run.jsonl"
    task = EXAMPLES["lens"].question.task()
    researcher = stand_in_researcher(
        EXAMPLES.values(),
        lambda each: [("submit_answer", {"answer": "it is Hedda Quill", "steps": []})],
    )
    down = ScriptedModel([ModelUnavailable("503", model="judge")] * 9, name="judge")
    with pytest.raises(MissingSignal):
        await scenario(model=researcher, judge=down).play(task, journal=journal)
    scene = scenario(model=researcher, judge=stand_in_judge())
    with pytest.raises(MissingSignal):
        await scene.recover(task, journal)
    grader = ResearchGrader(ResearchJudge(stand_in_judge()))
    check = await grader.check("answer", task, load(journal), answers="Researcher")
    assert check.values == {"answer.given": 1.0, "answer.correct": 1.0}


async def test_a_killed_episode_goes_on_without_reading_again(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    task = EXAMPLES["heights"].question.task()
    whole = await rehearsal().play(task, journal=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    read = [n for n, line in enumerate(lines) if json.loads(line).get("kind") == "tool_result"]
    journal.write_bytes(b"".join(lines[: read[1] + 1]))
    after = await rehearsal().recover(task, journal)
    assert after.reward == whole.reward
    counted = [signal for signal in after.trajectory.signals if signal.name == "information.pages"]
    assert counted[0].value == 2.0


def test_the_judge_of_an_environment_is_made_of_a_name() -> None:
    task = EXAMPLES["lens"].question.task()
    roles = scenario(model="openai/gpt-4o-mini").team()
    environment = WebResearchEnvironment(task, roles, web=example_web(), judge="openai/o3")
    assert environment.judge is not None
    assert environment.judge.name == "openai/o3"


def test_reference_steps_are_plain_data() -> None:
    """They stand in a file of rows, so that examples can be added without code."""
    for example in EXAMPLES.values():
        assert json.loads(json.dumps([asdict(step) for step in example.steps]))
