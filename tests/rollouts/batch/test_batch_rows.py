"""Rows of data sets: read one by one, whatever is wrong with some of them."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.row_files import Row, files_of, read_rows
from rolecraft.errors import UsageError
from rolecraft.rollouts.batch.rows import Discarded, prompt_of, sandbox_of
from rolecraft.sandboxes import SandboxSpec


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"".join(each if isinstance(each, bytes) else each.encode() for each in lines))
    return path


def test_a_broken_line_is_a_row_with_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows.jsonl",
        b'\xef\xbb\xbf{"prompt": "a"}\n',
        "\n",
        '{"prompt": "b"\n',
        "[1]\n",
        b'{"prompt": "\xff"}\n',
        '{"prompt": "' + "x" * 5000 + '"}\n',
        '{"prompt": "c"}',
    )
    rows = list(read_rows(path, max_row_bytes=1000))
    assert [row.number for row in rows] == list(range(6))
    assert [row.fields.get("prompt") for row in rows] == ["a", None, None, None, None, "c"]
    problems = [row.problem for row in rows]
    assert problems[0] == problems[5] == ""
    assert "is no JSON" in problems[1]
    assert problems[2] == "is list, not an object"
    assert problems[3] == "is no UTF-8 text"
    assert problems[4] == "has 5015 bytes; 1000 are allowed"
    assert len({row.raw for row in rows[1:5]}) == 4  # each can be told from the others


def test_rows_of_every_format_are_the_same(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    rows: list[dict[str, Any]] = [{"prompt": f"p{n}", "n": n} for n in range(600)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    plain = written(tmp_path / "a.jsonl", lines)
    packed = written(tmp_path / "a.jsonl.gz", gzip.compress(lines.encode()))
    listed = written(tmp_path / "a.json", json.dumps(rows))
    table = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    saved = tmp_path / "saved"
    datasets.Dataset.from_list(rows).save_to_disk(str(saved))
    hub = tmp_path / "hub" / "data"
    hub.mkdir(parents=True)
    for number, some in enumerate((rows[:300], rows[300:])):
        name = f"train-{number:05}-of-00002.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(some), hub / name)
    parquet.write_table(pyarrow.Table.from_pylist(rows[:1]), hub / "test-00000-of-00001.parquet")
    written(hub.parent / "dataset_info.json", "{}")
    for path in (plain, packed, listed, table, saved, hub.parent):
        found = list(read_rows(path))
        assert [row.fields for row in found] == rows, path
        assert not any(row.problem for row in found)
    assert len(list(read_rows(hub.parent, split="test"))) == 1


def test_the_splits_of_a_saved_data_set_are_chosen_by_name(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    both = datasets.DatasetDict(
        train=datasets.Dataset.from_list([{"prompt": "a"}]),
        test=datasets.Dataset.from_list([{"prompt": "b"}]),
    )
    both.save_to_disk(str(tmp_path / "saved"))
    assert [row.fields for row in read_rows(tmp_path / "saved")] == [{"prompt": "a"}]
    assert [r.fields for r in read_rows(tmp_path / "saved", split="test")] == [{"prompt": "b"}]
    with pytest.raises(UsageError, match="no split 'dev'; it has 'train', 'test'"):
        list(read_rows(tmp_path / "saved", split="dev"))


def test_what_is_no_data_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no data set"):
        list(read_rows(tmp_path / "none.jsonl"))
    with pytest.raises(UsageError, match="no data set by its name"):
        list(read_rows(written(tmp_path / "a.txt", "x")))
    with pytest.raises(UsageError, match="not a list of rows"):
        list(read_rows(written(tmp_path / "a.json", '{"a": 1}')))
    with pytest.raises(UsageError, match="not compressed"):
        list(read_rows(written(tmp_path / "a.jsonl.gz", "{}")))
    pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match="no parquet file"):
        list(read_rows(written(tmp_path / "a.parquet", "x")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no file of rows"):
        files_of(tmp_path / "empty")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Four times the rows, and rows of a megabyte, take no more memory at the peak."""

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.jsonl"
        with path.open("w") as file:
            for number in range(count):
                file.write(json.dumps({"prompt": "x" * 100_000, "n": number}) + "\n")
        tracemalloc.start()
        for _ in read_rows(path):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(80) < 1.5 * peak(20)


def test_a_line_that_is_too_long_is_not_held_in_memory(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl", b'{"prompt": "', b"x" * 30_000_000, b'"}\n{"prompt": "b"}\n'
    )
    tracemalloc.start()
    rows = list(read_rows(path, max_row_bytes=1_000_000))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [bool(row.problem) for row in rows] == [True, False]
    assert most < 10_000_000


# --- what a row asks for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"prompt": "a", "question": "b"}, "a"),
        ({"question": "b", "answer": "c"}, "b"),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}, "u"),
        ({"conversations": [{"from": "human", "value": "h"}]}, "h"),
    ],
)
def test_the_prompt_is_the_first_column_that_has_one(fields: Any, prompt: str) -> None:
    assert prompt_of(Row(0, fields)) == prompt


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (Row(0, {}, "is no JSON: …", "ab"), "", "unreadable"),
        (Row(0, {}, "has 9 bytes; 8 are allowed", "ab"), "", "too-large"),
        (Row(0, {"x": 1}), "", "no-prompt"),
        (Row(0, {"prompt": "a"}), "question", "no-prompt"),
        (Row(0, {"prompt": 3}), "", "no-prompt"),
        (Row(0, {"prompt": None}), "", "no-prompt"),
        (Row(0, {"messages": [{"role": "system", "content": "s"}]}), "", "no-prompt"),
        (Row(0, {"prompt": " \n"}), "", "empty-prompt"),
    ],
)
def test_a_row_without_a_prompt_is_discarded_with_its_reason(
    row: Row, column: str, reason: str
) -> None:
    with pytest.raises(Discarded) as raised:
        prompt_of(row, column)
    assert raised.value.reason == reason
    assert str(raised.value).startswith("the ")


def test_a_row_may_say_image_files_and_variables_and_nothing_that_opens_the_sandbox() -> None:
    base = SandboxSpec(network="none", env={"A": "1"})
    assert sandbox_of({"prompt": "x"}, base) is base
    assert sandbox_of({"prompt": "x"}) is None
    made = sandbox_of({"docker_image": "python:3.12", "sandbox": {"files": {"a": "b"}}}, base)
    assert made is not None
    assert (made.image, made.files, made.env) == ("python:3.12", {"a": "b"}, {"A": "1"})
    for wrong in ({"network": "full"}, {"readable": ["/etc"]}, {"colour": 1}, {"env": {"A": 1}}):
        with pytest.raises(Discarded) as raised:
            sandbox_of({"sandbox": wrong}, base)
        assert raised.value.reason == "bad-sandbox"
