"""The tutorial assistant plans first, and its plan becomes its action list."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from rolecraft import Action, Role, ScriptedModel, Team
from rolecraft.errors import UsageError
from rolecraft.roles.ready import markdown
from rolecraft.roles.ready.tutorial_assistant import (
    Chapter,
    Compose,
    Directory,
    ReviewedTutorialAssistant,
    TutorialAssistant,
    WriteChapter,
    WriteDirectory,
    composed,
)
from rolecraft.roles.remedies import Reviewer
from rolecraft.trajectories import Trajectory


def directory(title: str, *chapters: str) -> str:
    return json.dumps(
        {"title": title, "chapters": [{"title": c, "sections": [f"on {c}"]} for c in chapters]}
    )


def review(**comments: str) -> str:
    return json.dumps(
        {
            "checked": ["all chapters"],
            "comments": [{"about": about, "text": text} for about, text in comments.items()],
            "accepted": not comments,
        }
    )


WEATHER = directory("Weather", "Clouds", "Rain")


def done(trajectory: Trajectory) -> list[str]:
    return [
        event.data["action"] + event.data.get("fields", {}).get("title", "")
        for event in trajectory.of("action")
    ]


async def test_the_directory_becomes_the_action_list_and_the_chapters_one_document() -> None:
    writer = TutorialAssistant(
        model=ScriptedModel([WEATHER, "# Clouds\n\nWhite.\n\n## High\n\nThin.", "Wet."])
    )
    message = await writer.run("Write about the weather")
    assert done(writer.trajectory) == [
        "WriteDirectory",
        "WriteChapterClouds",
        "WriteChapterRain",
        "Compose",
    ]
    assert message is not None
    assert message.content == (
        "# Weather\n\n## Contents\n\n1. [Clouds](#1-clouds)\n2. [Rain](#2-rain)\n\n"
        "## 1. Clouds\n\nWhite.\n\n### High\n\nThin.\n\n## 2. Rain\n\nWet.\n"
    )
    assert markdown.broken_links(message.content) == []


async def test_the_document_is_recorded_as_an_artifact() -> None:
    writer = TutorialAssistant(model=ScriptedModel([WEATHER, "White.", "Wet."]))
    await writer.run("Write about the weather")
    artifacts = [event.artifact for event in writer.trajectory.of("artifact")]
    assert [artifact.name for artifact in artifacts if artifact] == ["tutorial.md"]


async def test_each_chapter_is_asked_for_in_its_place_among_the_others() -> None:
    model = ScriptedModel([WEATHER, "White.", "Wet."])
    await TutorialAssistant(model=model).run("Write about the weather")
    prompt = model.calls[2].messages[-1].content
    assert "1. Clouds\n   - on Clouds\n2. Rain\n   - on Rain" in prompt
    assert "chapter 2, 'Rain', in English" in prompt


async def test_a_second_run_starts_afresh() -> None:
    """MetaGPT's tutorial assistant appends: its second run writes the first one's chapters too."""
    model = ScriptedModel(
        [WEATHER, "White.", "Wet.", directory("Tea", "Leaves"), "Green."],
    )
    writer = TutorialAssistant(model=model)
    await writer.run("Write about the weather")
    message = await writer.run("Write about tea")
    assert done(writer.trajectory)[4:] == ["WriteDirectory", "WriteChapterLeaves", "Compose"]
    assert message is not None
    assert message.content.startswith("# Tea")
    assert "Rain" not in message.content
    model.assert_complete()


async def test_a_run_after_one_that_failed_starts_afresh_too() -> None:
    model = ScriptedModel([WEATHER, "White.", ConnectionError("down"), WEATHER, "Grey.", "Wet."])
    writer = TutorialAssistant(model=model)
    with pytest.raises(ConnectionError):
        await writer.run("Write about the weather")
    message = await writer.run("Write about the weather")
    assert message is not None
    assert "Grey." in message.content
    assert "White." not in message.content


async def test_the_same_script_gives_the_same_events_in_the_second_run() -> None:
    writer = TutorialAssistant(model=ScriptedModel([WEATHER, "White.", "Wet."] * 2))
    await writer.run("go")
    first = len(writer.trajectory.events)
    await writer.run("go")
    events = [(e.kind, e.content) for e in writer.trajectory.events]
    assert (
        events[:first]
        == [e for e in events[first:] if e != ("action_swap", "")][:0] + (events[:first])
    )
    again = events[first:]
    again.remove(("action_swap", ""))  # the second run's own: back to the directory
    assert sorted(again) == sorted(events[:first])


async def test_in_chinese() -> None:
    model = ScriptedModel([directory("天气", "云", "雨"), "白色的。", "湿的。"])
    writer = TutorialAssistant(language="Chinese", model=model)
    message = await writer.run("写一篇关于天气的教程")
    assert message is not None
    assert message.content.startswith("# 天气\n\n## 目录\n\n1. [云](#1-云)\n2. [雨](#2-雨)\n")
    assert markdown.broken_links(message.content) == []
    assert all("in Chinese" in call.messages[-1].content for call in model.calls)


def test_a_language_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match=r"`language` .* 'Klingon', expected one of .*English"):
        TutorialAssistant(language="Klingon")


def test_two_chapters_of_one_title_are_refused() -> None:
    with pytest.raises(ValueError, match=r"same title: \['Rain'\]"):
        Directory.model_validate_json(directory("Weather", "Rain", "Rain"))


async def test_a_directory_that_promises_a_chapter_twice_is_asked_for_again() -> None:
    model = ScriptedModel([directory("W", "Rain", "Rain"), directory("W", "Rain"), "Wet."])
    await TutorialAssistant(model=model).run("go")
    assert "same title: ['Rain']" in model.calls[1].messages[-1].content


ODD = st.text(st.sampled_from("#`*_[]()<>|\\!~-1. aB云\n\u2028"), max_size=12)


@given(titles=st.lists(ODD, min_size=1, max_size=4), texts=st.lists(ODD, min_size=4, max_size=4))
def test_whatever_titles_and_chapters_hold_every_link_leads_to_its_chapter(
    titles: list[str], texts: list[str]
) -> None:
    try:
        plan = Directory(title="Odd", chapters=[Chapter(title=title) for title in titles])
    except ValidationError:
        assume(False)
    chapters = dict(zip((c.title for c in plan.chapters), texts, strict=False))
    document = composed(plan, chapters, "Contents")
    headings = [s.title for s in markdown.sections(document) if s.level == 2][1:]
    assert headings == [f"{n}. {c.title}" for n, c in enumerate(plan.chapters, 1)]
    own = {markdown.anchor(heading) for heading in headings}
    written = set(re.findall(r"^\d+\. \[.*\]\(#(.*)\)$", document, flags=re.M))
    assert own <= written
    assert own <= markdown.anchors(document)


@pytest.mark.parametrize(
    ("actions", "first"),
    [
        ([WriteChapter("Rain", language="English")], "WriteDirectory"),
        ([Compose("English")], "WriteDirectory"),
        ([WriteDirectory("English"), Compose("English")], "WriteChapter"),
    ],
)
async def test_actions_that_are_used_out_of_order_say_what_comes_first(
    actions: list[Action], first: str
) -> None:
    role = Role(actions=actions, model=ScriptedModel([WEATHER]))
    with pytest.raises(UsageError, match=f"`{first}` comes first"):
        await role.run("go")


# --- reviewed --------------------------------------------------------------------------------


async def test_only_the_chapters_that_a_reviewer_comments_on_are_written_again() -> None:
    model = ScriptedModel(
        per_role={
            "TutorialAssistant": [WEATHER, "White.", "Dry.", "Wet."],
            "Reviewer": [review(Rain="rain is not dry"), review()],
        }
    )
    run = await Team([ReviewedTutorialAssistant(), Reviewer()], model=model).run("the weather")
    assert run.message is not None
    assert run.message.content.endswith("## 1. Clouds\n\nWhite.\n\n## 2. Rain\n\nWet.\n")
    assert run.message.metadata is not None
    assert run.message.metadata["accepted"] is True
    assert done(run.trajectory) == [
        "WriteDirectory",
        "WriteChapterClouds",
        "WriteChapterRain",
        "Compose",
        "ReviewWork",
        "WriteChapterRain",
        "Compose",
        "ReviewWork",
        "Deliver",
    ]
    again = [call.messages[-1].content for call in model.calls if call.role != "Reviewer"][-1]
    assert "<chapter>\nDry.\n</chapter>" in again
    assert "rain is not dry" in again


async def test_a_comment_about_no_chapter_is_met_in_all_of_them() -> None:
    model = ScriptedModel(
        per_role={
            "TutorialAssistant": [WEATHER, "white", "wet", "White.", "Wet."],
            "Reviewer": [review(style="write whole sentences"), review()],
        }
    )
    run = await Team([ReviewedTutorialAssistant(), Reviewer()], model=model).run("the weather")
    assert run.message is not None
    assert "White." in run.message.content
    assert "Wet." in run.message.content
    model.assert_complete()


async def test_a_second_task_of_a_reviewed_author_has_a_directory_of_its_own() -> None:
    model = ScriptedModel(
        per_role={
            "TutorialAssistant": [WEATHER, "White.", "Wet.", directory("Tea", "Leaves"), "Green."],
            "Reviewer": [review(), review()],
        }
    )
    team = Team([ReviewedTutorialAssistant(), Reviewer()], model=model)
    await team.run("the weather")
    run = await team.run("tea")
    assert run.message is not None
    assert run.message.content.startswith("# Tea")
    model.assert_complete()
