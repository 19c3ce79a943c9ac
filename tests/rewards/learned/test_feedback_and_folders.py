"""What is kept: answers in an append-only file, and a reward in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.errors import TraceError, UsageError
from rolecraft.rewards.learned import (
    Direction,
    FunctionEmbedding,
    LearnedReward,
    LearnedRewardError,
    NetSettings,
    Observation,
    Preference,
    Rating,
    append_feedback,
    fit,
    load_learned,
    read_feedback,
    save_learned,
)

RUNS = [Observation({"cost": float(i), "good": i % 2}, "be quick", f"r{i}") for i in range(6)]
LABELS = [
    Preference(RUNS[0], RUNS[1], "a", "ann"),
    Rating(RUNS[2], 4),
    Preference(*RUNS[3:5], "skip"),
]
SETTINGS = NetSettings((Direction("cost", "lower"), Direction("good")))


def learned(**options) -> LearnedReward:
    return fit(LearnedReward.untrained(SETTINGS, RUNS, **options), LABELS[:2])


# --- answers --------------------------------------------------------------------------------


def test_answers_come_back_as_they_were_given(tmp_path: Path):
    path = tmp_path / "new" / "feedback.jsonl"
    assert read_feedback(path) == []
    append_feedback(path, LABELS[:1])
    append_feedback(path, LABELS[1:])
    assert read_feedback(path) == LABELS


def test_a_line_that_a_killed_process_left_half_is_taken_off_before_the_next(tmp_path: Path):
    path = append_feedback(tmp_path / "f.jsonl", LABELS)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    with pytest.raises(TraceError, match="line 4 is no label"):
        read_feedback(path)
    problems: list[str] = []
    assert read_feedback(path, problems=problems) == LABELS
    assert len(problems) == 1
    append_feedback(path, LABELS[:1])
    assert path.read_bytes() == whole + whole[: whole.index(b"\n") + 1]


ENDLESS = """
import sys
from rolecraft.rewards.learned import Observation, Rating, append_feedback
for number in range(10**9):
    append_feedback(sys.argv[1], [Rating(Observation({"x": 1.0}, "", str(number)), 3)])
    print(number, flush=True)
"""


def test_every_answer_that_was_acknowledged_survives_kill_9(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(50):
        process.stdout.readline()
    process.kill()
    acknowledged = 50 + len(process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    kept = read_feedback(path, problems=[])
    assert len(kept) >= acknowledged
    assert [label.question for label in kept] == [(str(n),) for n in range(len(kept))]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"kind": "guess"}', 'its kind is "guess"'),
        ("[1]", "expected a JSON object"),
        ('{"kind": "rating", "run": {"run": "r", "values": {}}, "satisfaction": 6}', "from 1 to 5"),
        ('{"kind": "rating", "satisfaction": 3}', "missing 'run'"),
        (
            '{"kind": "rating", "run": {"run": "r", "values": {"x": "NaN"}}, "satisfaction": 3}',
            "`x` is nan",
        ),
        ('{"kind": "rating", "run": {"run": "r", "values": []}, "satisfaction": 3}', "no label"),
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str, told: str):
    path = tmp_path / "f.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(TraceError, match=told):
        read_feedback(path)


def test_degrees_and_answers_that_there_are_not_are_refused():
    with pytest.raises(UsageError, match="from 1 to 5, not 0"):
        Rating(RUNS[0], 0)
    with pytest.raises(UsageError, match="not 'c'"):
        Preference(RUNS[0], RUNS[1], "c")  # type: ignore[arg-type]


# --- the folder -----------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_saved_scores_the_same_and_saves_the_same_bytes(tmp_path: Path):
    reward = learned(goal="be cheap")
    save_learned(reward, tmp_path / "one")
    again = load_learned(tmp_path / "one")
    assert again.values(RUNS) == reward.values(RUNS)
    assert (again.settings, again.goal, again.fits) == (SETTINGS, "be cheap", 1)
    save_learned(again, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_later_reward_takes_the_place_of_an_earlier_one(tmp_path: Path):
    reward = learned()
    save_learned(reward, tmp_path)
    save_learned(fit(reward, LABELS[:1]), tmp_path)
    assert load_learned(tmp_path).fits == 2
    assert len(contents(tmp_path)) == 2


def test_killed_between_the_two_files_the_earlier_reward_is_in_force(tmp_path: Path):
    reward = learned()
    save_learned(reward, tmp_path / "old")
    save_learned(fit(reward, LABELS[:1]), tmp_path / "new")
    (weights,) = (tmp_path / "new").glob("*.safetensors")
    (tmp_path / "old" / weights.name).write_bytes(weights.read_bytes())
    assert load_learned(tmp_path / "old").values(RUNS) == reward.values(RUNS)


def edit(folder: Path, **changes: object) -> None:
    path = folder / "reward.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_missing_damaged_or_too_new_says_so(tmp_path: Path):
    with pytest.raises(LearnedRewardError, match=r"no `reward.json`. `rolecraft feedback --fit`"):
        load_learned(tmp_path / "nowhere")
    folder = save_learned(learned(), tmp_path / "r")
    whole = contents(folder)

    def restore() -> None:
        for name, data in whole.items():
            (folder / name).write_bytes(data)

    edit(folder, version=2)
    with pytest.raises(LearnedRewardError, match="it has version 2"):
        load_learned(folder)
    edit(folder, format="something else")
    with pytest.raises(LearnedRewardError, match="of no learned reward"):
        load_learned(folder)
    (folder / "reward.json").write_text("{")
    with pytest.raises(LearnedRewardError, match="is damaged"):
        load_learned(folder)
    restore()
    edit(folder, net={**json.loads(whole["reward.json"])["net"], "hidden": 3})
    with pytest.raises(LearnedRewardError, match="other shapes"):
        load_learned(folder)
    restore()
    (weights,) = folder.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(LearnedRewardError, match="other bytes than were written"):
        load_learned(folder)
    weights.unlink()
    with pytest.raises(LearnedRewardError, match="there is no `weights-"):
        load_learned(folder)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LearnedRewardError, match="cannot be written"):
        save_learned(learned(), tmp_path / "file" / "r")


def test_goals_of_an_embedding_of_ones_own_are_kept_and_others_ask_for_it(tmp_path: Path):
    def embed(text: str) -> list[float]:
        return [float(len(text)), 1.0]

    own = FunctionEmbedding("lengths", 2, embed)
    reward = learned(embedding=own)
    expected = reward.values(RUNS)
    save_learned(reward, tmp_path)
    alone = load_learned(tmp_path)
    assert alone.values(RUNS) == expected
    with pytest.raises(UsageError, match=r"not seen the goal 'new'.*`lengths`.*embedding="):
        alone.with_goal("new").values(RUNS)
    load_learned(tmp_path, embedding=own).with_goal("new").values(RUNS)
    with pytest.raises(UsageError, match="embeds goals with `lengths`"):
        load_learned(tmp_path, embedding=FunctionEmbedding("other", 2, embed))


def test_torch_is_not_imported_until_a_reward_is_used():
    probe = "import sys, rolecraft.rewards.learned as l; l.Rating; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
