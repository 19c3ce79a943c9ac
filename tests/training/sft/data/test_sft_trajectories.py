"""Trajectories as training data: a role's own answers, of runs that went as they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models import FunctionModel
from rolecraft.models.doubles import ModelCall
from rolecraft.models.tiny import tiny_tokenizer
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.rollouts.batch.output import FILES
from rolecraft.scenarios.relay import VOCABULARY, relay
from rolecraft.training.sft.pieces import mask_pieces
from rolecraft.training.sft.prepare import Prepared, Selection, check_data, prepare
from rolecraft.training.sft.samples import Sample, TokenSample
from rolecraft.trajectories import Event, FailureFinding, Store, Trajectory
from rolecraft.trajectories.events import TokenSpan
from rolecraft.trajectories.findings import append_findings


def clerk(call: ModelCall) -> str:
    """A model that reads the right register, and adds rightly to odd values only."""
    words = call.messages[-1].content.split()
    if words[0] == "asked":
        return words[1]
    value, plus = int(words[1]), int(words[3])
    return str((value + plus + (value % 2 == 0)) % 5)


@pytest.fixture
async def runs(tmp_path: Path) -> Path:
    """A folder of six rollouts, with a line for each in `results.jsonl`."""
    folder = tmp_path / "runs-of-relay"
    lines = []
    for number, task in enumerate(relay.tasks.sample(6, seed=1)):
        journal = folder / "runs" / task.id / "r1.jsonl"
        journal.parent.mkdir(parents=True)
        await relay.play(task, model=FunctionModel(clerk), journal=journal)
        row = {"id": task.id, "reward": number / 5, "journal": f"runs/{task.id}/r1.jsonl"}
        lines.append(json.dumps(row))
    (folder / "plan.json").write_text("{}")
    (folder / "results.jsonl").write_text("\n".join(lines) + '\n{"torn')
    return folder


def made(data: Any, tokenizer: Any = None, selection: Selection | None = None) -> Prepared:
    plan = check_data(data, selection=selection)
    return prepare(plan, tokenizer or byte_tokenizer(), name="tiny", max_length=4096)


def answers(prepared: Prepared, tokenizer: Any = None) -> list[str]:
    tokenizer = tokenizer or byte_tokenizer()
    return [
        text.removesuffix(tokenizer.eos_token).strip()
        for row in prepared.train
        for text, trained in mask_pieces(row["input_ids"], row["labels"], tokenizer)
        if trained
    ]


async def test_only_a_roles_own_turns_are_trained(runs: Path) -> None:
    plan = check_data(runs)
    assert plan.roles == ["planner", "executor"]
    assert plan.samples == 12
    assert {name for file in plan.files for name in file.layouts} == {"trajectory"}
    planner = made(runs, selection=Selection(role="planner"))
    executor = made(runs, selection=Selection(role="executor"))
    assert len(planner.train) == len(executor.train) == 6
    assert set(answers(planner)) <= set("abcd")
    assert set(answers(executor)) <= set("01234")
    assert planner.report.left_out == {"another role's": 6}


async def test_runs_are_chosen_by_their_reward(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0, 0.2, 0.4, 0.6, 0.8 and 1, as the file of results says."""
    chosen = made(runs, selection=Selection(role="planner", min_reward=0.6))
    assert len(chosen.train) == 3
    assert chosen.report.left_out == {"another role's": 6, "reward too low": 3}
    (first, *_) = sorted((runs / "runs").rglob("*.jsonl"))
    alone = check_data(first, selection=Selection(role="planner"))
    assert alone.sources[0].reward is not None  # found beside it, three folders up
    monkeypatch.chdir(first.parent)
    beside = check_data("r1.jsonl", selection=Selection(role="planner"))
    assert beside.sources[0].reward == alone.sources[0].reward


async def test_without_a_file_of_results_the_environments_own_measure_counts(runs: Path) -> None:
    (runs / "results.jsonl").unlink()
    rewards = []
    plan = check_data(runs, selection=Selection(role="planner"))
    for at, file in enumerate(plan.files):
        (sample,) = [s for s in plan.read(at) if isinstance(s, (Sample, TokenSample))]
        trajectory = Trajectory.load(file.path)
        (signal,) = [s for s in trajectory.signals if s.name == "relay.correct"]
        assert sample.facts.reward == signal.value
        rewards.append(signal.value)
    assert 0 < sum(rewards) < 6


async def test_runs_in_which_a_failure_was_found_are_left_out(runs: Path) -> None:
    first, second, third, *_ = sorted((runs / "runs").rglob("*.jsonl"))
    append_findings(first, [FailureFinding("derailment", "present", (1,), role="planner")])
    append_findings(second, [FailureFinding("derailment", "absent")])
    append_findings(third, [FailureFinding("step_repetition", "present", (1,))])

    def left(role: str, *modes: str) -> dict[str, int]:
        return made(runs, selection=Selection(role=role, without_failures=modes)).report.left_out

    assert left("planner", "derailment") == {"another role's": 6, "failure derailment": 1}
    assert left("executor", "derailment") == {"another role's": 6}  # it was the planner's
    assert left("executor", "any") == {"another role's": 6, "failure step_repetition": 1}
    assert sum(left("planner", "any").values()) == 8
    with pytest.raises(UnknownName, match=r"derailmnt.*Did you mean 'derailment'"):
        left("planner", "derailmnt")


async def test_runs_are_chosen_by_why_they_stopped(runs: Path) -> None:
    (journal, *_) = sorted((runs / "runs").rglob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"kind":"stop"' not in line]
    assert len(kept) < len(lines)
    journal.write_bytes(b"".join(kept))
    reason = Trajectory.load(sorted((runs / "runs").rglob("*.jsonl"))[1]).stop_reason
    assert reason is not None
    chosen = made(runs, selection=Selection(role="planner", stop_reasons=(reason,)))
    assert chosen.report.left_out == {"another role's": 6, "stopped: cut off": 1}
    with pytest.raises(UnknownName, match="finishd"):
        Selection(stop_reasons=("finishd",))


async def test_a_store_of_trajectories_is_data_as_well(runs: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "index.db") as store:
        store.index(runs / "runs")
    prepared = made(tmp_path / "index.db", selection=Selection(min_reward=0.6))
    assert len(prepared.train) == 6


async def test_a_broken_journal_is_a_problem_and_a_torn_last_line_is_none(runs: Path) -> None:
    first, second, *_ = sorted((runs / "runs").rglob("*.jsonl"))
    first.write_bytes(first.read_bytes()[:-10])
    assert check_data(runs).samples >= 11
    lines = second.read_bytes().splitlines(keepends=True)
    lines[3] = b"{broken\n"
    second.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=r"is no whole record: .*:4:"):
        check_data(runs)
    plan = check_data(runs, skip_broken=True)
    assert sum(file.broken for file in plan.files) == 1


# --- tokens --------------------------------------------------------------------------------------


async def test_tokens_of_a_local_model_are_trained_as_it_sampled_them(tmp_path: Path) -> None:
    (task,) = relay.tasks.sample(1, seed=1)
    model: Any = relay.untrained(0)  # type: ignore[misc]
    journal = tmp_path / "run.jsonl"
    episode = await relay.play(task, model=model, journal=journal)
    tokenizer = tiny_tokenizer(VOCABULARY)
    prepared = made(journal, tokenizer)
    assert prepared.report.exact == 2
    spans = [event.tokens for event in episode.trajectory.of("model_call")]
    for row, span in zip(prepared.train, spans, strict=True):
        assert span is not None
        assert row["input_ids"] == span.given + span.sampled
        assert row["labels"] == [-100] * len(span.given) + span.sampled


async def test_for_another_tokenizer_they_are_conversations(tmp_path: Path) -> None:
    """Ids mean something to the tokenizer that made them only."""
    (task,) = relay.tasks.sample(1, seed=1)
    journal = tmp_path / "run.jsonl"
    await relay.play(task, model=relay.untrained(0), journal=journal)  # type: ignore[misc]
    prepared = made(journal)
    assert prepared.report.exact == 0
    said = [event.content for event in Trajectory.load(journal).of("model_call")]
    assert answers(prepared) == said
    backwards = tiny_tokenizer(VOCABULARY[::-1])
    assert made(journal, backwards).report.exact == 0
    assert answers(made(journal, backwards), backwards) == said


def test_a_short_answer_that_stands_in_other_tokens_by_chance_proves_nothing(
    tmp_path: Path,
) -> None:
    """`d` is in the name of the end token, and could be any byte of another vocabulary."""
    tokenizer = byte_tokenizer()
    end, letter = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("d")
    for number, sampled in enumerate(([end], [letter])):
        span = TokenSpan("R:0", 0, [5, 6, 7], sampled, [-0.1])
        data = {"session": "R/1", "messages": [{"role": "user", "content": "Which letter?"}]}
        event = Event("model_call", "R", "d", data=data, tokens=span, seq=0)
        journal = tmp_path / f"{number}.jsonl"
        Trajectory("t", events=[event]).save(journal)
        assert made(journal, tokenizer).report.exact == 0


def test_sequences_that_a_rewriting_template_began_belong_to_one_sample(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    def call(seq: int, session: str, start: int, given: str, said: str) -> Event:
        span = TokenSpan(session, start, ids(given), ids(said), [-0.1] * len(ids(said)))
        data = {"session": "R/1", "messages": [{"role": "user", "content": given}]}
        return Event("model_call", "R", said, data=data, tokens=span, seq=seq)

    events = [
        call(0, "R:0", 0, "one", "first"),
        call(1, "R:0", 8, "two", "second"),
        call(2, "R:0+1", 0, "one,first,two,second,three", "third"),
    ]
    Trajectory("t", events=events).save(tmp_path / "t.jsonl")
    plan = check_data(tmp_path / "t.jsonl")
    assert plan.samples == 1
    prepared = prepare(plan, tokenizer, name="tiny", max_length=100)
    assert answers(prepared) == ["first", "second", "third"]
    assert len(prepared.train) == 2
    assert prepared.report.exact == 2


# --- rolecraft batch -----------------------------------------------------------------------------


def test_a_folder_of_a_batch_is_read_once_and_its_own_files_are_no_data(tmp_path: Path) -> None:
    for name in ("ledger.jsonl", "samples.jsonl", "aside.jsonl"):
        (tmp_path / name).write_text('{"anything": 1}\n')
    rows = [
        {
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
            "role": role,
            "ended": "finished",
            "reward": reward,
        }
        for role, reward in (("R", 1.0), ("R", 0.0), ("R", None), ("S", 1.0))
    ]
    text = "\n".join(map(json.dumps, rows))
    with pytest.raises(UsageError, match="without training output"):
        check_data(tmp_path)
    for form in ("openai", "sharegpt"):
        (tmp_path / FILES[form]).write_text(text)
    plan = check_data(tmp_path, selection=Selection(role="R", min_reward=0.5))
    assert plan.samples == 1
    assert plan.files[0].left_out == {
        "another role's": 1,
        "reward too low": 1,
        "no reward is known": 1,
    }


def test_a_reward_is_not_asked_of_dialogues_that_have_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"data": ["a", "b"]}\n')
    assert check_data(path, selection=Selection(role="R", min_reward=0.5)).samples == 1


def test_files_of_rows_beside_journals_are_named_as_not_read(runs: Path, tmp_path: Path) -> None:
    """What a rollout writes beside them is its own; a file that is named besides is read."""
    assert check_data(runs).not_read == {}
    (runs / "more").mkdir()
    talk = runs / "more/talk.jsonl"
    talk.write_text('{"data": ["Q: a", "A: b"]}\n')
    (runs / "old.jsonl.gz").write_bytes(b"")
    plan = check_data(runs)
    assert plan.not_read == {runs: [talk, runs / "old.jsonl.gz"]}
    assert {source.kind for source in plan.sources} == {"journal"}
    both = check_data([runs, talk])
    assert both.not_read == {runs: [runs / "old.jsonl.gz"]}
    assert both.samples == plan.samples + 1
