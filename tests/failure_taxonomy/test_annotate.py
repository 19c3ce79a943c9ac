"""`annotate`: one report a trace, detectors first, the judge for the rest."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Role, ScriptedModel, Team
from rolecraft.environments.relay import RelayEnvironment, RelayTasks, relay_team
from rolecraft.errors import TraceError, UsageError
from rolecraft.failure_taxonomy import (
    DETECTORS,
    MAST_V3,
    MODES,
    Detector,
    Judge,
    Report,
    annotate,
    annotate_many,
)
from rolecraft.failure_taxonomy.planting import Check, Make, Script, Turn, Use, Watched
from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.trajectories import Event, FailureFinding, Trajectory
from rolecraft.trajectories.jsonl import save

Says = Callable[..., FunctionModel]
MakeTrace = Callable[..., Trajectory]

LISTING = Use("list_files", {"folder": "src"}, "parser.py")
GOOD = Script(
    [
        Turn("coder", "WriteCode", does=[LISTING, Make("a.py", "print(1)")], says="Here it is."),
        Turn("tester", "RunTests", does=[Check("tests", True)], says="All tests pass."),
    ],
    goal={"artifacts": ["a.py"], "verify": "tests"},
)
BAD = Script(
    [
        Turn("coder", "WriteCode", does=[LISTING, LISTING], says="I have looked around."),
        Turn("boss", "Close", says="The project is done."),
    ],
    goal={"artifacts": ["a.py"]},
)


async def test_a_good_run_has_no_failure_and_says_how_much_was_judged() -> None:
    report = await annotate(await GOOD.play())
    assert not report.present
    assert report.decisive is None
    assert set(report.judged) == {
        "repetition",
        "reset",
        "termination_unaware",
        "premature_end",
        "verification.absent",
    }
    assert "5 of the 14 modes were judged" in report.summary()
    assert "no failure found among the modes that were judged" in report.summary()


async def test_every_mode_has_a_finding_and_a_present_has_evidence() -> None:
    report = await annotate(await BAD.play())
    assert [finding.mode for finding in report.findings] == list(MODES)
    assert {finding.mode for finding in report.present} == {"repetition", "premature_end"}
    assert report.judged["repetition"] == ("detector.repetition",)
    assert report.judged.keys() | report.unjudged.keys() == MODES.keys()
    assert not report.judged.keys() & report.unjudged.keys()
    assert all(report.unjudged.values())


async def test_the_json_has_the_documented_fields_and_no_others() -> None:
    trajectory = await BAD.play()
    line = (await annotate(trajectory)).to_json()
    assert "\n" not in line
    report = json.loads(line)
    assert list(report) == ["trace", "format", "annotator", "judged", "findings", "decisive"]
    assert (report["trace"], report["format"]) == ("run", "rolecraft")
    assert report["judged"]["premature_end"] == ["detector.premature_end"]
    for finding in report["findings"]:
        assert list(finding) == [
            "mode",
            "code",
            "code_system",
            "verdict",
            "role",
            "events",
            "quote",
            "confidence",
            "source",
            "reason",
        ]
        assert finding["code"] == MAST_V3.code(finding["mode"])
        assert finding["code_system"] == MAST_V3.name
    repetition = next(row for row in report["findings"] if row["mode"] == "repetition")
    assert repetition["verdict"] == "present"
    assert repetition["role"] == "coder"
    first, second = sorted(repetition["events"])
    assert trajectory.events[first].data == trajectory.events[second].data
    assert repetition["quote"] == '"tool":"list_files"'


async def test_a_trajectory_a_run_a_file_and_a_role_can_be_annotated(tmp_path: Path) -> None:
    class Say(Action):
        async def run(self, history: Any) -> str:
            return await self.ask("Say something.")

    class Speaker(Role):
        actions = (Say,)

    run = await Team([Speaker()], model=ScriptedModel(["hello"])).run("Speak.")
    path = save(run.trajectory, tmp_path / "run.jsonl")
    solo = Speaker(model=ScriptedModel(["hello"]))
    await solo.run("Speak.")
    for trace, name in [
        (run, "run"),
        (run.trajectory, "run"),
        (path, str(path)),
        (str(path), str(path)),
        (solo, "Speaker"),
    ]:
        report = await annotate(trace)
        assert report.trace == name
        assert report.format == "rolecraft"
        assert report.judged.keys() == {"repetition", "reset"}


async def test_what_cannot_be_annotated_is_named() -> None:
    with pytest.raises(UsageError, match="`annotate` takes"):
        await annotate(42)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"nowhere\.json"):
        await annotate("nowhere.json")


# --- relay ----------------------------------------------------------------------------------------


async def test_a_failed_relay_run_is_explained() -> None:
    """The planner reads another register than the asked one; nobody checks the answer."""
    (task,) = RelayTasks().sample(1, seed=3)
    other = next(name for name in "abcd" if name != task.data["asked"])
    model = ScriptedModel(per_role={"planner": [other], "executor": ["0"]})
    env = RelayEnvironment(task, relay_team(), model=model)
    report = await annotate(await env.episode())
    found = {finding.mode: finding for finding in report.present}
    assert found.keys() == {"task_spec", "verification.absent"}
    assert found["task_spec"].role == "planner"
    assert found["task_spec"].source == "environment"
    assert found["task_spec"].quote == other
    assert found["verification.absent"].role == "executor"
    assert report.decisive is not None
    assert (report.decisive.mode, report.decisive.role) == ("task_spec", "planner")


async def test_a_relay_run_that_reads_the_asked_register_breaks_no_rule() -> None:
    (task,) = RelayTasks().sample(1, seed=3)
    model = ScriptedModel(per_role={"planner": [task.data["asked"]], "executor": ["0"]})
    report = await annotate(await RelayEnvironment(task, relay_team(), model=model).episode())
    assert {finding.mode for finding in report.present} == {"verification.absent"}
    assert "all watched constraints were kept" in report.unjudged["task_spec"]


async def test_random_relay_runs_break_the_rule_exactly_when_another_register_is_read() -> None:
    draw = random.Random(0)
    broken = 0
    for task in RelayTasks().sample(60, seed=1):
        read, said = draw.choice("abcd"), draw.choice("01234")
        model = ScriptedModel(per_role={"planner": [read], "executor": [said]})
        report = await annotate(await RelayEnvironment(task, relay_team(), model=model).episode())
        modes = [finding.mode for finding in report.present]
        assert ("task_spec" in modes) == (read != task.data["asked"])
        assert "verification.absent" in modes
        assert not {"repetition", "termination_unaware", "premature_end"} & set(modes)
        broken += "task_spec" in modes
    assert 30 < broken < 60


# --- the decisive failure -------------------------------------------------------------------------


async def test_the_decisive_failure_is_the_first_one_with_role_and_step() -> None:
    report = await annotate(await BAD.play())
    assert report.decisive is not None
    assert (report.decisive.mode, report.decisive.role) == ("repetition", "coder")
    assert report.decisive.step == max(report.decisive.finding.events)


async def test_a_failure_before_the_goal_was_met_is_not_decisive() -> None:
    """The run repeated a step, and then reached its goal all the same."""
    turns = [
        Turn("coder", "Look", does=[LISTING, LISTING], says="I have looked around."),
        Turn("coder", "WriteCode", does=[Make("a.py", "1")], says="Written."),
        Turn("tester", "RunTests", does=[Check("tests", True)], says="All tests pass."),
    ]
    report = await annotate(await Script(turns, goal={"verify": "tests"}).play())
    assert {finding.mode for finding in report.present} == {"repetition"}
    assert report.decisive is None


async def test_a_goal_that_was_met_later_and_lost_again_recovers_nothing() -> None:
    turns = [
        Turn("coder", "Look", does=[LISTING, LISTING], says="I have looked around."),
        Turn("tester", "RunTests", does=[Check("tests", True)], says="All tests pass."),
        Turn("coder", "WriteCode", does=[Make("a.py", "2")], says="Written."),
        Turn("tester", "RunTests", does=[Check("tests", False)], says="Now they fail."),
    ]
    report = await annotate(await Script(turns, goal={"verify": "tests"}).play())
    assert report.decisive is not None
    assert (report.decisive.mode, report.decisive.role) == ("repetition", "coder")


async def test_a_constraint_that_was_kept_in_the_end_is_not_decisive() -> None:
    def watched(turn: int, passed: bool) -> Watched:
        return Watched(turn, {"constraint": "short", "passed": passed, "role": "writer"})

    turns = [Turn("writer", "Write", says=text) for text in ("far too long", "short")]
    report = await annotate(
        await Script(turns, watched=[watched(0, False), watched(1, True)]).play()
    )
    assert [finding.mode for finding in report.present] == ["task_spec"]
    assert report.decisive is None
    report = await annotate(
        await Script(turns, watched=[watched(0, True), watched(1, False)]).play()
    )
    assert report.decisive is not None
    assert report.decisive.role == "writer"


# --- detectors and judge together -----------------------------------------------------------------


async def test_the_judge_is_asked_only_for_what_detectors_left_open(says: Says) -> None:
    row = {"mode": "derailment", "verdict": "present", "role": "boss", "events": [6]}
    trajectory = await BAD.play()
    (close,) = [e for e in trajectory.of("message") if e.role == "boss"]
    row |= {"events": [close.seq], "quote": "The project is done."}
    model = says(row)
    report = await annotate(trajectory, judge=model)
    asked = model.calls[0].messages[-1].content.rsplit("described above: ", 1)[1].rstrip(".")
    left = [mode for mode in MODES if mode not in (await annotate(trajectory)).judged]
    assert asked.split(", ") == left
    assert len(report.judged) == 14
    assert report.judged["repetition"] == ("detector.repetition",)
    assert report.judged["derailment"] == ("judge:function",)
    assert [finding.mode for finding in report.findings] == list(MODES)
    assert "14 of the 14 modes were judged" in report.summary()
    assert "agrees with people is unmeasured" in report.summary()


async def test_a_judge_that_refuses_leaves_the_modes_unjudged() -> None:
    trajectory = await BAD.play()
    before = await annotate(trajectory)
    report = await annotate(trajectory, judge=ScriptedModel(["I cannot help with that."]))
    assert report.judged == before.judged
    assert "not in the form that was asked for" in report.unjudged["derailment"]
    assert report.opinion is not None
    assert report.opinion.coverage == 0.0


async def test_a_judge_can_be_given_with_settings_of_its_own(says: Says) -> None:
    report = await annotate(await BAD.play(), judge=Judge(says(), window=1000, overlap=100))
    assert report.opinion is not None
    assert report.opinion.coverage == 1.0


async def test_detectors_of_ones_own_are_held_to_the_same_evidence() -> None:
    class Rude(Detector):
        name = "mine"
        modes = ("role_spec",)
        quoted = "The project"

        def look(self, view: Any) -> list[FailureFinding]:
            (close,) = [e for e in view.events if e.role == "boss" and e.kind == "message"]
            return [
                FailureFinding(
                    "role_spec", "present", (close.seq,), "boss", self.quoted, 0.5, self.name
                )
            ]

    trajectory = await BAD.play()
    report = await annotate(trajectory, detectors=[*DETECTORS, Rude()])
    assert report.judged["role_spec"] == ("mine",)
    liar = Rude()
    liar.quoted = "The prjoect"
    with pytest.raises(UsageError, match="`mine` has a finding for 'role_spec' that quotes what"):
        await annotate(trajectory, detectors=[liar])


async def test_detectors_of_ones_own_name_who_made_what_they_quote() -> None:
    class Unfair(Detector):
        name = "mine"
        modes = ("role_spec",)

        def look(self, view: Any) -> list[FailureFinding]:
            (close,) = [e for e in view.events if e.role == "boss" and e.kind == "message"]
            quote = "The project is done."
            return [FailureFinding("role_spec", "present", (close.seq,), "coder", quote, 0.5)]

    with pytest.raises(UsageError, match="names the role 'coder', but 'boss' made the quoted"):
        await annotate(await BAD.play(), detectors=[Unfair()])


async def test_a_fact_of_a_detector_of_ones_own_needs_no_watched_constraint() -> None:
    class Sure(Detector):
        name = "mine"
        modes = ("role_spec",)

        def look(self, view: Any) -> list[FailureFinding]:
            quote = "The project is done."
            (said,) = [e.seq for e in view.events if e.content == quote and e.kind == "message"]
            return [
                FailureFinding("role_spec", "present", (said,), "boss", quote, 1.0, "environment")
            ]

    report = await annotate(await BAD.play(), detectors=[Sure()])
    assert report.decisive is not None
    assert report.decisive.mode == "role_spec"


async def test_a_detector_that_looks_for_what_is_not_there_is_named_and_hangs_nothing() -> None:
    class Careless(Detector):
        name = "mine"
        modes = ("role_spec",)

        def look(self, view: Any) -> list[FailureFinding]:
            return [next(iter(()))]

    with pytest.raises(UsageError, match="`mine` raised `StopIteration`"):
        await asyncio.wait_for(annotate(await BAD.play(), detectors=[Careless()]), 60)


# --- many -----------------------------------------------------------------------------------------


async def test_a_folder_gives_a_report_for_each_file_in_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        save(await BAD.play(), tmp_path / f"{number}.jsonl")
    (tmp_path / "3.json").write_text("{}")
    found = [said async for said in annotate_many(tmp_path, concurrency=2)]
    assert [isinstance(said, Report) for said in found] == [True, True, False, True]
    assert isinstance(found[2], TraceError)
    assert "3.json" in str(found[2])
    assert [Path(said.trace).name for said in found if isinstance(said, Report)] == [
        "1.jsonl",
        "2.jsonl",
        "10.jsonl",
    ]


async def test_paths_and_trajectories_can_be_mixed(tmp_path: Path) -> None:
    trajectory = await BAD.play()
    path = save(trajectory, tmp_path / "a.jsonl")
    (tmp_path / "empty").mkdir()
    said = [s async for s in annotate_many([trajectory, path, tmp_path / "empty", "nowhere"])]
    assert [type(s) for s in said] == [Report, Report, TraceError, TraceError]


async def test_at_most_so_many_judges_work_at_once() -> None:
    now = most = 0

    async def slow(call: ModelCall) -> Completion:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await asyncio.sleep(0)
        now -= 1
        return Completion(text="")

    trajectories = [await BAD.play() for _ in range(9)]
    judge = FunctionModel(slow)
    reports = [r async for r in annotate_many(trajectories, judge=judge, concurrency=3)]
    assert len(reports) == 9
    assert most <= 3
    with pytest.raises(UsageError, match="concurrency"):
        _ = [r async for r in annotate_many(trajectories, concurrency=0)]


async def test_whoever_stops_reading_stops_the_rest(trace: MakeTrace) -> None:
    started = 0

    async def endless(call: ModelCall) -> str:
        nonlocal started
        started += 1
        if started > 1:
            await asyncio.Event().wait()
        return ""

    talk = trace(Event("message", role="ada", content="hello there"))
    reports = annotate_many([talk] * 5, judge=FunctionModel(endless), concurrency=2)
    async for report in reports:
        assert isinstance(report, Report)
        break
    await reports.aclose()  # type: ignore[attr-defined]
    assert started <= 3


async def test_repeated_text_is_a_diagnostic_and_no_failure(trace: MakeTrace) -> None:
    text = "There is no code for me to execute."
    talk = trace(
        Event("message", role="terminal", content=text),
        Event("message", role="ada", content=text),
        Event("message", role="terminal", content=f"  {text}\n"),
        Event("message", role="ada", content="ok"),
        Event("message", role="ada", content="ok"),
    )
    report = await annotate(talk)
    assert not report.present
    (diagnostic,) = report.diagnostics
    assert (diagnostic.name, diagnostic.role) == ("repeated_text", "terminal")
    assert diagnostic.events == (0, 2)
    assert diagnostic.quote == text
    assert "diagnostics, no failure modes: 1 text was sent again" in report.summary()
