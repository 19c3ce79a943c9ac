"""Prepared data: what is kept, what is cached, and that equal samples stay on one side."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.sft.prepare import Prepared, check_data, mask_pieces, prepare
from rolecraft.training.sft.report import DataReport, FileReport


def dialogues(path: Path, pairs: list[tuple[str, str]]) -> Path:
    lines = [json.dumps({"data": list(pair)}, ensure_ascii=False) for pair in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def made(path: Path | list[Path], tokenizer: Any = None, **more: Any) -> Prepared:
    settings: dict[str, Any] = {"name": "tiny", "max_length": 512} | more
    plan = check_data(path, cache=settings.get("cache"))  # type: ignore[arg-type]
    return prepare(plan, tokenizer or byte_tokenizer(), **settings)


def texts(rows: Any) -> list[str]:
    tokenizer = byte_tokenizer()
    return [tokenizer.decode(row["input_ids"]) for row in rows]


def test_the_columns_are_ids_and_labels_and_the_report_counts_them(tmp_path: Path) -> None:
    prepared = made(dialogues(tmp_path / "a.jsonl", [("a", "bb"), ("cc", "d")]))
    assert prepared.train.column_names == ["input_ids", "labels"]
    assert str(prepared.train.features["input_ids"].feature.dtype) == "int32"
    rows = list(prepared.train)
    report = prepared.report
    assert (report.samples, report.sequences, prepared.eval) == (2, 2, None)
    assert report.tokens == sum(len(row["input_ids"]) for row in rows)
    assert report.trained_tokens == sum(n != -100 for row in rows for n in row["labels"])
    assert report.longest == max(len(row["input_ids"]) for row in rows)
    assert mask_pieces(rows[0]["input_ids"], rows[0]["labels"], byte_tokenizer()) == [
        ("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", False),
        ("bb<|im_end|>", True),
    ]
    assert "question-answer; 2 rows, 2 samples" in str(report)


def test_a_tokenizer_that_pads_with_its_end_token_still_trains_the_end(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = None
    prepared = made(dialogues(tmp_path / "a.jsonl", [("a", "b")]), tokenizer)
    assert prepared.train[0]["labels"][-1] == tokenizer.eos_token_id
    assert tokenizer.pad_token is None


# --- lengths -------------------------------------------------------------------------------------

LONG = [("short", "s"), ("long", "x" * 200), ("q" * 200, "late")]


def test_over_long_samples_are_left_out_by_default_and_counted(tmp_path: Path) -> None:
    prepared = made(dialogues(tmp_path / "a.jsonl", LONG), max_length=100)
    assert prepared.report.left_out == {"longer than 100 tokens": 2}
    assert len(prepared.train) == 1


def test_over_long_samples_can_be_cut_if_something_trained_remains(tmp_path: Path) -> None:
    prepared = made(dialogues(tmp_path / "a.jsonl", LONG), max_length=100, overlong="truncate")
    assert [len(row["input_ids"]) for row in prepared.train][1:] == [100]
    assert prepared.report.truncated == 2
    assert prepared.report.left_out == {"nothing to train": 1}


def test_over_long_conversations_can_be_divided_at_turns_of_the_user(tmp_path: Path) -> None:
    """Each part is a conversation of its own, with the system prompt, and loses no answer."""
    said = [{"role": "system", "content": "S"}]
    for n in range(6):
        said += [
            {"role": "user", "content": f"question {n}"},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": said}) + "\n")
    prepared = made(path, max_length=200, overlong="split")
    parts = texts(prepared.train)
    assert prepared.report.split == 1
    assert len(parts) > 1
    assert all(part.startswith("<|im_start|>system\nS<|im_end|>") for part in parts)
    assert "".join(parts).count("answer") == 6
    assert all(len(row["input_ids"]) <= 200 for row in prepared.train)
    (whole,) = made(path, max_length=600, overlong="split").train
    assert byte_tokenizer().decode(whole["input_ids"]).count("answer") == 6


def test_nothing_that_fits_is_an_error_with_the_reason(tmp_path: Path) -> None:
    path = dialogues(tmp_path / "a.jsonl", [("a", "b" * 90)])
    with pytest.raises(
        UsageError, match=r"Nothing is left to train on: 1 \(longer than 50 tokens\)"
    ):
        made(path, max_length=50)


def test_a_template_that_never_lets_an_answer_stand_is_an_error_with_a_way_out(
    tmp_path: Path,
) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = (
        "{% if add_generation_prompt %}GO{% endif %}{% for m in messages %}{{ m.content }}"
        "{% endfor %}"
    )
    with pytest.raises(UsageError, match=r"behind the prompt.*--template FILE"):
        made(dialogues(tmp_path / "a.jsonl", [("a", "b")]), tokenizer)


def test_conversations_for_a_base_model_are_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="--template FILE"):
        made(dialogues(tmp_path / "a.jsonl", [("a", "b")]), tokenizer, cache=tmp_path / "cache")
    assert not [*(tmp_path / "cache").glob("*/train.arrow")]
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "2+2=", "completion": "4"}\n')
    assert texts(made(path, tokenizer).train) == ["2+2=4<|im_end|>"]


@pytest.mark.parametrize("wrong", [{"max_length": 1}, {"eval_share": 1.0}, {"overlong": "drop"}])
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = dialogues(tmp_path / "a.jsonl", [("a", "b")])
    with pytest.raises(UsageError, match=next(iter(wrong))):
        made(path, **wrong)


# --- eval split ----------------------------------------------------------------------------------

PAIRS = [(f"question {n}", f"answer {n}") for n in range(300)]


def test_the_share_to_evaluate_on_is_about_as_large_as_asked_for(tmp_path: Path) -> None:
    prepared = made(dialogues(tmp_path / "a.jsonl", PAIRS), eval_share=0.2)
    assert prepared.eval is not None
    assert 30 <= len(prepared.eval) <= 90
    assert len(prepared.eval) + len(prepared.train) == 300
    assert len(prepared.eval) == prepared.report.eval_sequences
    other = made(tmp_path / "a.jsonl", eval_share=0.2, seed=1)
    assert other.eval is not None
    assert set(texts(other.eval)) != set(texts(prepared.eval))


def test_rows_that_come_or_move_change_nothing_for_the_others(tmp_path: Path) -> None:
    before = made(dialogues(tmp_path / "a.jsonl", PAIRS), eval_share=0.2)
    moved = [*PAIRS, *((f"new {n}", "x") for n in range(100))]
    random.Random(0).shuffle(moved)
    after = made(dialogues(tmp_path / "b.jsonl", moved), eval_share=0.2)
    assert before.eval is not None
    assert after.eval is not None
    assert {text for text in texts(after.eval) if "question" in text} == set(texts(before.eval))


def test_equal_samples_are_on_one_side_whatever_their_layout(tmp_path: Path) -> None:
    one = dialogues(tmp_path / "a.jsonl", PAIRS + PAIRS[::-1])
    two = tmp_path / "b.jsonl"
    rows = [
        {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}
        for q, a in PAIRS
    ]
    two.write_text("\n".join(map(json.dumps, rows)))
    three = tmp_path / "c.jsonl"
    three.write_text("\n".join(json.dumps({"prompt": q, "completion": a}) for q, a in PAIRS))
    prepared = made([one, two, three], eval_share=0.3)
    assert prepared.eval is not None
    assert not set(texts(prepared.eval)) & set(texts(prepared.train))
    assert len(prepared.eval) == 4 * len(set(texts(prepared.eval)))


def test_everything_held_out_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fell into the eval split"):
        made(dialogues(tmp_path / "a.jsonl", [("a", "b")]), eval_share=0.999999)


# --- cache ---------------------------------------------------------------------------------------


def test_the_same_data_is_made_once_and_anything_else_anew(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    path = dialogues(tmp_path / "a.jsonl", PAIRS[:20])
    first = made(path, cache=cache)
    again = made(path, cache=cache)
    assert (first.from_cache, again.from_cache) == (False, True)
    assert first.fingerprint == again.fingerprint
    assert [*again.train] == [*first.train]
    assert again.report == first.report

    changed = byte_tokenizer()
    changed.chat_template += "{# another #}"
    assert not made(path, changed, cache=cache).from_cache
    for more in ({"max_length": 400}, {"seed": 3, "eval_share": 0.1}, {"template": {"x": 1}}):
        assert not made(path, cache=cache, **more).from_cache
    dialogues(path, PAIRS[:21])
    assert not made(path, cache=cache).from_cache


def test_how_a_tokenizer_pads_or_truncates_changes_nothing(tmp_path: Path) -> None:
    path = dialogues(tmp_path / "a.jsonl", PAIRS[:5])
    made(path, cache=tmp_path / "cache")
    tokenizer = byte_tokenizer()
    tokenizer("abc", truncation=True, max_length=2, padding="max_length")
    assert made(path, tokenizer, cache=tmp_path / "cache").from_cache


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "about"])
def test_a_broken_cache_is_made_anew(tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    path = dialogues(tmp_path / "a.jsonl", PAIRS[:20])
    first = made(path, cache=cache)
    known = [*first.train]
    arrow = cache / first.fingerprint / "train.arrow"
    data = arrow.read_bytes()
    match damage:
        case "cut":
            arrow.write_bytes(data[:-50])
        case "flip":
            at = len(data) // 2
            arrow.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        case "gone":
            arrow.unlink()
        case "about":
            (arrow.parent / "about.json").write_text("{")
    again = made(path, cache=cache)
    assert not again.from_cache
    assert [*again.train] == known
    assert made(path, cache=cache).from_cache


def test_a_broken_note_of_a_check_is_made_anew(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    path = dialogues(tmp_path / "a.jsonl", PAIRS[:20])
    plan = check_data(path, cache=cache)
    (note,) = (cache / "notes").iterdir()
    note.write_text(note.read_text().replace('"samples": 20', '"samples": 19'))
    assert check_data(path, cache=cache) == plan


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    """Kill -9 while the cache is being written; the next run makes it, and all of it."""
    cache = tmp_path / "cache"
    path = dialogues(tmp_path / "a.jsonl", PAIRS * 20)
    program = f"""
from pathlib import Path
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.sft.prepare import check_data, prepare
plan = check_data({str(path)!r})
prepare(plan, byte_tokenizer(), name="tiny", max_length=512, cache=Path({str(cache)!r}),
        on_progress=lambda done, of: print(done, flush=True))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "1000\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert [*cache.glob(".*")]
    prepared = made(path, cache=cache)
    assert not prepared.from_cache
    assert len(prepared.train) == 6000


def test_what_killed_writers_left_is_taken_away_after_a_day(tmp_path: Path) -> None:
    """Not before: it may be what another process is writing."""
    cache = tmp_path / "cache"
    for name, age in (("old", 25 * 3600), ("new", 3600)):
        left = cache / f".unfinished-{name}"
        left.mkdir(parents=True)
        (left / "train.arrow").write_bytes(b"x")
        os.utime(left, (time.time() - age,) * 2)
    made(dialogues(tmp_path / "a.jsonl", [("a", "b")]), cache=cache)
    assert [path.name for path in cache.glob(".*")] == [".unfinished-new"]


def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    path = dialogues(tmp_path / "a.jsonl", [("a", "b")])
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        made(path, cache=tmp_path / "cache")


@pytest.mark.slow
def test_two_that_make_the_same_at_once_both_get_it(tmp_path: Path) -> None:
    """As the processes of a distributed run do."""
    path = dialogues(tmp_path / "a.jsonl", PAIRS)
    program = f"""
from pathlib import Path
from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training.sft.prepare import check_data, prepare
cache = Path({str(tmp_path / "cache")!r})
plan = check_data({str(path)!r}, cache=cache)
print(len(prepare(plan, byte_tokenizer(), name="tiny", max_length=512, cache=cache).train))
"""
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == ["300\n"] * 2
    assert not [*(tmp_path / "cache").glob(".*")]


# --- cost ----------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path: Path) -> None:
    """Four times the rows: what Python holds at most stays about the same."""
    peaks = []
    for count in (1_500, 6_000):
        path = tmp_path / f"{count}.jsonl"
        with path.open("w") as file:
            for n in range(count):
                file.write(json.dumps({"prompt": f"q{n}", "completion": "a"}) + "\n")
        tokenizer = byte_tokenizer()
        tokenizer.chat_template = None
        made(dialogues(tmp_path / "warm.jsonl", [("a", "b")]))  # what is loaded on first use
        plan = check_data(path)
        tracemalloc.start()
        prepared = prepare(plan, tokenizer, name="tiny", max_length=512, cache=tmp_path / "cache")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(prepared.train) == count
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.slow
def test_a_start_with_cached_data_takes_at_most_a_quarter_of_the_first(tmp_path: Path) -> None:
    path = dialogues(tmp_path / "a.jsonl", [(f"q {n}", "answer " * 9) for n in range(20_000)])
    tokenizer = byte_tokenizer()
    took: list[float] = []
    for number in range(5):  # on a busy machine one of five tries must be quiet
        took.clear()
        for _ in range(2):
            began = time.perf_counter()
            made(path, tokenizer, cache=tmp_path / f"cache {number}")
            took.append(time.perf_counter() - began)
        if took[1] <= 0.25 * took[0]:
            return
    pytest.fail(f"The first took {took[0]} seconds, and the second {took[1]}.")


def test_many_files_of_a_folder_are_told_as_one() -> None:
    """A rollout leaves a journal for each run."""
    runs = [
        FileReport(f"runs/{n}.jsonl", {"trajectory": 1}, 2, samples=1, left_out={"reward": 1})
        for n in range(600)
    ]
    told = str(DataReport(files=[*runs, FileReport("more.jsonl", {"messages": 3}, 3, samples=3)]))
    assert told.splitlines()[:3] == [
        "runs (600 files): trajectory; 1200 rows, 600 samples",
        "  left out: 600 (reward)",
        "more.jsonl: messages; 3 rows, 3 samples",
    ]
