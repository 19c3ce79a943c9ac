"""Modes of one's own: beside the 14, under the same rules, in reports and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import (
    DETECTORS,
    MAST_V3,
    MODES,
    Category,
    Detector,
    Judge,
    Mode,
    Stage,
    annotate,
    get_mode,
    load_modes,
    register_mode,
)
from rolecraft.failure_taxonomy.codes import SYSTEMS
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.models import ScriptedModel
from rolecraft.trajectories import Event, FailureFinding, Trajectory

TOO_LONG = Mode(
    id="headline.too_long",
    name="Headline too long",
    category=Category.VERIFICATION,
    stages=(Stage.AFTER,),
    definition="A headline is approved that does not fit the page.",
    positive="`editor` approves a headline of eleven words.",
    near_miss="`editor` sends a headline of eleven words back.",
    confused_with=("task_spec",),
)


@pytest.fixture(autouse=True)
def _only_for_this_test() -> Iterator[None]:
    before = dict(MODES)
    yield
    MODES.clear()
    MODES.update(before)


@pytest.fixture
def approved(trace: Callable[..., Trajectory]) -> Trajectory:
    """`editor` approves what is too long."""
    return trace(
        Event("message", "writer", "One two three four five six seven eight nine"),
        Event("message", "editor", "Approved: it stays as it is"),
        Event("stop", content="done"),
    )


class FindTooLong(Detector):
    name = "detector.too_long"
    modes = (TOO_LONG.id,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        (approval,) = [e for e in view.events if e.content.startswith("Approved")]
        return [
            self.present(
                TOO_LONG.id, [approval], role="editor", reason="nine words", quote_of=approval
            )
        ]


async def test_it_is_judged_reported_and_has_no_code(approved: Trajectory) -> None:
    before = len(MODES)
    assert register_mode(TOO_LONG) is get_mode(TOO_LONG.id)
    report = await annotate(approved, detectors=[*DETECTORS, FindTooLong()])
    assert list(MODES)[-1] == TOO_LONG.id
    assert f"of the {before + 1} modes" in report.summary()
    row = report.to_dict()["findings"][-1]
    assert (row["mode"], row["verdict"], row["code"]) == (TOO_LONG.id, "present", "")
    assert Labels.from_dict(report.to_dict()).verdict(TOO_LONG.id) == "present"
    assert MAST_V3.code("verification.weak") == "3.3"
    assert all(system.code(TOO_LONG.id) == "" for system in SYSTEMS.values())


async def test_without_a_detector_it_is_unknown_and_a_judge_is_asked(approved: Trajectory) -> None:
    register_mode(TOO_LONG)
    report = await annotate(approved)
    assert "no detector" in report.unjudged[TOO_LONG.id]
    model = ScriptedModel(["nonsense"])
    await Judge(model).judge(approved)
    prompt = "\n".join(message.content for message in model.calls[0].messages)
    assert TOO_LONG.definition in prompt
    assert TOO_LONG.near_miss in prompt


async def test_its_findings_need_evidence_as_all_others_do(approved: Trajectory) -> None:
    register_mode(TOO_LONG)

    class Careless(FindTooLong):
        def look(self, view: TraceView) -> list[FailureFinding]:
            (found,) = super().look(view)
            return [replace(found, quote="words that nobody said")]

    with pytest.raises(UsageError, match=r"detector\.too_long"):
        await annotate(approved, detectors=[Careless()])


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"id": "3.4"}, "looks like a code"),
        ({"id": "fm_1.1"}, "looks like a code"),
        ({"id": "mast15"}, "looks like a code"),
        ({"id": "Too Long"}, "letters"),
        ({"id": "reset"}, "`reset` is known already"),
        ({"id": "waiting"}, "`waiting` is known already"),
        ({"name": "Weak Verification"}, r"`verification\.weak`"),
        ({"name": "step repetition"}, "`repetition`"),
        ({"definition": " "}, "`definition`"),
        ({"stages": ()}, "`stages`"),
    ],
)
def test_a_mode_that_clashes_or_lacks_something_is_refused(
    changed: dict[str, object], complaint: str
) -> None:
    before = dict(MODES)
    with pytest.raises(UsageError, match=complaint):
        register_mode(replace(TOO_LONG, **changed))  # type: ignore[arg-type]
    assert before == MODES


def test_the_same_mode_twice_is_one_and_a_changed_one_is_refused() -> None:
    register_mode(TOO_LONG)
    register_mode(TOO_LONG)
    assert list(MODES).count(TOO_LONG.id) == 1
    with pytest.raises(UsageError, match="known already"):
        register_mode(replace(TOO_LONG, definition="Something else."))


FILE = """
[[mode]]
id = "headline.too_long"
name = "Headline too long"
category = "verification"
stages = ["after"]
definition = "A headline is approved that does not fit the page."
positive = "`editor` approves a headline of eleven words."
near_miss = "`editor` sends a headline of eleven words back."
confused_with = ["task_spec"]
"""


def test_modes_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "modes.toml"
    path.write_text(FILE)
    assert load_modes(path) == [TOO_LONG] == load_modes(path)
    path.write_text(FILE.replace("too_long", "dull").replace("too long", "dull").replace(
        'stages = ["after"]\n', "absence = true\n"
    ))  # fmt: skip
    (dull,) = load_modes(path)
    assert (dull.stages, dull.absence) == (tuple(Stage), True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "None|none"),
        ("mode = 3", "none"),
        ("[[modes]]\nid = 'a'", "'modes'"),
        ("[[mode]", "no TOML"),
        (FILE.replace("definition", "definitoin"), "unknown fields: definitoin"),
        (FILE.replace('name = "Headline too long"\n', ""), "lacks `name`"),
        (FILE.replace('"verification"', '"spelling"'), "'spelling'"),
        (FILE.replace('["after"]', '"after"'), "is a list"),
        (FILE.replace('"task_spec"', '"3.2"'), "'3.2', which is none"),
        (FILE.replace('"headline.too_long"', '"1.1"'), "looks like a code"),
        (FILE.replace('"headline.too_long"', "11"), "`id`"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "modes.toml"
    path.write_text(text)
    before = dict(MODES)
    with pytest.raises(UsageError, match=complaint) as raised:
        load_modes(path)
    assert "modes.toml" in str(raised.value)
    assert before == MODES
    with pytest.raises(UsageError, match="cannot be read"):
        load_modes(tmp_path / "none.toml")
