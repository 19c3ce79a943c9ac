"""An evaluation that says nothing, or of a part only, is told beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.sft.prepare import check_data, prepare
from rolecraft.training.sft.report import DataReport


def report_of(folder: Path, share: float, **more: Any) -> DataReport:
    """Of twelve dialogues in ShareGPT's layout and two questions with answers."""
    talks = [
        {"conversations": [{"from": "human", "value": f"{n}?"}, {"from": "gpt", "value": "!"}]}
        for n in range(12)
    ]
    questions = [{"data": [f"Q: {n}", "A: yes"]} for n in range(2)]
    for name, rows in (("talks", talks), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = check_data([folder / "talks.jsonl", folder / "questions.jsonl"])
    made = prepare(
        plan, byte_tokenizer(), name="tiny", max_length=512, eval_share=share, cache=folder, **more
    )
    return made.report


def test_a_share_that_keeps_nothing_is_told_with_one_that_does(tmp_path: Path) -> None:
    (told,) = report_of(tmp_path, 1e-9).of_evaluation(1e-9)
    assert "None of the 14 samples fell into the share of 1e-09" in told
    assert "`--eval-share 0.3` keeps more" in told
    assert report_of(tmp_path, 0.0).of_evaluation(0.0) == []


def test_an_evaluation_of_one_layout_alone_is_told_and_one_of_both_is_not(tmp_path: Path) -> None:
    told = {}
    for seed in range(12):  # which samples are kept is the seed's choice
        report = report_of(tmp_path, 0.2, seed=seed)
        sides = report.sides["layout"]
        assert sum(sides["sharegpt"]) == 12
        assert sum(sides["question-answer"]) == 2
        talks, questions = sides["sharegpt"][1] > 0, sides["question-answer"][1] > 0
        told[talks, questions, sides["question-answer"][0] > 0] = report.of_evaluation(0.2)
    (alone,) = told[True, False, True]
    assert "are of the layout `sharegpt`: the evaluation loss says nothing of" in alone
    assert "`question-answer`" in alone
    assert told[True, True, True] == []


def test_a_role_of_which_nothing_is_left_to_train_is_told() -> None:
    report = DataReport(sequences=3, eval_sequences=3)
    for held_out in (False, True, False):
        report.count_side("trajectory", "planner", held_out=held_out)
    for _ in range(2):
        report.count_side("trajectory", "executor", held_out=True)
    (told,) = report.of_evaluation(0.3)
    assert told.startswith("Every sample of the role `executor` (2) is kept for evaluation")


def test_prepared_data_of_the_cache_tells_the_same(tmp_path: Path) -> None:
    first = report_of(tmp_path, 1e-9)
    again = DataReport.from_dict(json.loads(json.dumps(first.to_dict())))
    assert again.of_evaluation(1e-9) == first.of_evaluation(1e-9)
