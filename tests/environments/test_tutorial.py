"""`tutorial` measures what was promised and what was written, without a model."""

from __future__ import annotations

import json

import pytest

from rolecraft import FunctionModel, Limits, ScriptedModel, annotate
from rolecraft.environments import Task
from rolecraft.environments.tutorial import TutorialEnvironment, TutorialTasks
from rolecraft.environments.tutorial.environment import chapters, share_of_words, words
from rolecraft.models import ModelCall
from rolecraft.roles.ready.tutorial_assistant import TutorialAssistant
from rolecraft.scenarios.tutorial import complete, tutorial, tutorial_team, tutorial_zh
from rolecraft.trajectories import Trajectory

FIFTY = "It rains, and the rain is wet. " * 8
ACCEPTED = json.dumps({"checked": ["all"], "accepted": True})


def directory(*titles: str) -> str:
    return json.dumps({"title": "Weather", "chapters": [{"title": title} for title in titles]})


def task(number: int, language: str = "English", least: int = 50) -> Task:
    data = {"language": language, "chapters": number, "words": least}
    return Task("one", f"{number} chapters on the weather", data)


async def play(the_task: Task, *script: str) -> tuple[dict[str, float], Trajectory]:
    env = TutorialEnvironment(the_task, [TutorialAssistant()], model=ScriptedModel(script))
    trajectory = await env.episode()
    return {s.name.removeprefix("tutorial."): s.value for s in trajectory.signals}, trajectory


async def test_a_tutorial_as_it_was_asked_for() -> None:
    measured, trajectory = await play(task(2), directory("Clouds", "Rain"), FIFTY, FIFTY)
    assert measured == {
        "chapters_asked": 2,
        "chapters_promised": 2,
        "chapters_written": 2,
        "shortest_chapter": 56,
        "broken_links": 0,
        "in_language": 1,
        "turns": 1,
    }
    assert trajectory.stop_reason == "finished"
    assert complete(trajectory).value == 1


@pytest.mark.parametrize(
    ("titles", "texts", "value"),
    [
        (["Clouds", "Rain"], [FIFTY, "Wet."], 0.5),
        (["Clouds"], [FIFTY], 0.5),
        (["Clouds", "Rain", "Snow"], [FIFTY] * 3, 0.5),
        (["Clouds", "Rain"], [FIFTY, f"{FIFTY} [see](#snow)"], 0.0),
        (["Clouds", "Rain"], ["雨" * 60, "云" * 60], 0.0),
        (["Clouds", "Rain"], ["Wet.", "Wet."], 0.0),
        (["Clouds", "Rain"], [f"Look:\n```\n{FIFTY}", FIFTY], 0.5),
    ],
    ids=[
        "one chapter is too short",
        "one chapter too few",
        "one chapter too many",
        "a link that leads nowhere",
        "the wrong language",
        "all chapters are too short",
        "code is no text, and one left open swallows only its own chapter",
    ],
)
async def test_what_is_wrong_with_a_tutorial_costs_reward(
    titles: list[str], texts: list[str], value: float
) -> None:
    _, trajectory = await play(task(2), directory(*titles), *texts)
    assert complete(trajectory).value == value


async def test_what_was_not_delivered_is_worth_nothing() -> None:
    env = TutorialEnvironment(
        task(2),
        tutorial_team(),
        model=ScriptedModel([directory("Clouds", "Rain"), FIFTY, FIFTY, "never asked"]),
        limits=Limits(rounds=1),  # the reviewer never reads it
    )
    trajectory = await env.episode()
    assert trajectory.stop_reason == "rounds"
    assert {s.name: s.value for s in trajectory.signals}["tutorial.chapters_promised"] == 2
    assert complete(trajectory).value == 0


async def test_a_broken_rule_of_the_task_is_found_as_a_failure_of_the_author() -> None:
    _, trajectory = await play(task(3), directory("Clouds", "Rain"), FIFTY, FIFTY)
    findings = (await annotate(trajectory)).findings
    present = [(f.mode, f.role) for f in findings if f.verdict == "present"]
    assert ("task_spec", "TutorialAssistant") in present
    assert ("verification.absent", "TutorialAssistant") in present  # and nobody reviewed it


def writes(call: ModelCall) -> str:
    """A team in which the reviewer refuses the first version."""
    asked = call.messages[-1].content
    if call.role == "Reviewer":
        comment = {"about": "Rain", "text": "not wet enough"}
        refusal = {"checked": ["Rain"], "comments": [comment], "accepted": False}
        return ACCEPTED if "version before" in asked else json.dumps(refusal)
    if "Plan a tutorial" in asked:
        return directory("Clouds", "Rain")
    return f"{FIFTY} Wet." if "not wet enough" in asked else FIFTY


async def test_in_the_scenario_a_reviewer_reads_before_anything_goes_out() -> None:
    episode = await tutorial.play(task(2), model=FunctionModel(writes))
    assert episode.reward.value == 1
    assert episode.trajectory.stop_reason == "finished"
    actions = [event.data["action"] for event in episode.trajectory.of("action")]
    assert actions[-1] == "Deliver"
    assert actions.count("ReviewWork") == 2
    findings = (await annotate(episode.trajectory)).findings
    assert [f.mode for f in findings if f.verdict == "present"] == []


def writes_chinese(call: ModelCall) -> str:
    asked = call.messages[-1].content
    if call.role == "Reviewer":
        return ACCEPTED
    plan = {"title": "天气", "chapters": [{"title": "云"}, {"title": "雨"}]}
    return json.dumps(plan) if "Plan a tutorial" in asked else "下雨了，雨是湿的。" * 10


async def test_the_scenario_in_chinese() -> None:
    episode = await tutorial_zh.play(task(2, "Chinese"), model=FunctionModel(writes_chinese))
    assert episode.reward.value == 1
    document = [e.content for e in episode.trajectory.of("message")][-1]
    assert document.startswith("# 天气\n\n## 目录\n\n1. [云](#1-云)")


def test_the_same_seed_draws_the_same_tasks_and_splits_do_not_overlap() -> None:
    for language in ("English", "Chinese"):
        source = TutorialTasks(language)  # type: ignore[arg-type]
        assert source.sample(20, seed=1) == source.sample(20, seed=1)
        assert source.sample(20, seed=1) != source.sample(20, seed=2)
        train = {task.id for task in source.sample(500)}
        assert not train & {task.id for task in source.sample(500, split="test")}


def test_a_task_says_all_that_is_measured() -> None:
    for scenario in (tutorial, tutorial_zh):
        one = scenario.tasks.sample(1)[0]
        assert str(one.data["chapters"]) in one.prompt
        assert str(one.data["words"]) in one.prompt


def test_words_are_counted_in_both_languages_and_not_in_code() -> None:
    assert words("two words") == 2
    assert words("# 下雨了 twice") == 4
    assert words("one\n```\ntwo three\n```\n`four`") == 1


def test_a_share_of_words_is_not_swayed_by_how_long_they_are() -> None:
    assert share_of_words("用 Kubernetes 部署", "Chinese") == 0.75
    assert share_of_words("", "English") == 0


def test_a_chapter_is_a_section_of_level_two_with_all_that_is_below_it() -> None:
    text = "# T\n## Contents\n1. a\n## 1. A\nx\n### B\ny\n# Other\nz\n## C\n"
    assert chapters(text) == ["x\nB\ny\n", ""]
