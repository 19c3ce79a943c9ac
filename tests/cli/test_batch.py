"""`rolecraft batch`: one command that runs a data set, goes on, and refuses what would mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "batch"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"question": f"What is {n} + 1?"}) + "\n" for n in range(6)))
    return path


def arguments(rows: Path, *more: object) -> tuple[object, ...]:
    return ("batch", rows, "--team", EXAMPLE / "team.py:team", "--out", "answers", *more)


def test_the_example_of_200_rows_runs_and_is_over_the_second_time(cli: Any) -> None:
    datasets = pytest.importorskip("datasets")
    call = arguments(EXAMPLE / "questions.jsonl", "--format", "sharegpt", "--format", "parquet")
    done = cli(*call)
    assert done.code == 0, done.err
    assert "189 samples for training in `answers`:" in done.out
    assert "Answered by stand-in: no language model." in done.err
    aside = [json.loads(line) for line in Path("answers/aside.jsonl").read_text().splitlines()]
    reasons = {row["status"]: row["reason"] for row in aside}
    assert reasons == {
        "discarded:invented-tools": "no such tool: sum_up",
        "discarded:no-reasoning": "none of its 1 answers has reasoning",
    }
    loaded = datasets.load_dataset(
        "parquet", data_files="answers/train.parquet", split="train", cache_dir="cache"
    )
    assert len(loaded) == 189
    assert {len(row["tool_stats"]) for row in loaded} == {2}
    again = cli(*call)
    assert (again.code, "200 of 200 items are over already." in again.err) == (0, True)


def test_json_lines_say_what_happens_and_nothing_else_is_on_stdout(cli: Any, rows: Path) -> None:
    done = cli(*arguments(rows, "--samples", 2, "--json"))
    assert done.code == 0
    assert len(done.lines) == len(done.out.splitlines())
    assert [line["what"] for line in done.lines[:2]] == ["begins", "item"]
    report = done.lines[-1]
    assert (report["what"], report["items"], report["left"]) == ("report", 12, 0)
    assert done.lines[-2]["what"] == "ends"


def test_other_settings_or_another_data_set_are_refused_with_the_ways_out(
    cli: Any, rows: Path
) -> None:
    assert cli(*arguments(rows)).code == 0
    done = cli(*arguments(rows, "--seed", 5))
    assert done.code == 2
    assert "`seed` was 0 and is 5" in done.err
    assert "--new" in done.err
    assert "--allow-mixed" in done.err
    rows.write_text('{"question": "Who?"}\n')
    assert "another data set" in cli(*arguments(rows)).err
    done = cli(*arguments(rows, "--allow-mixed"))
    assert "7 model calls" not in done.err
    done = cli(*arguments(rows, "--new"))
    assert done.code == 0
    assert Path("answers/before-1/ledger.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--distribution", "x"), "give `--toolsets FILE`"),
        (("--toolsets", EXAMPLE / "toolsets.toml", "--distribution", "x"), "'x'"),
        (("--role-model", "Nobody=openai/x"), "Nobody"),
        (("--split", "test"), None),
        (("--prompt", "qestion"), "Did you mean 'question'?"),
        (("--toolsets", "none.toml"), "`none.toml` cannot be read"),
    ],
)
def test_what_cannot_be_is_told(cli: Any, rows: Path, more: Any, text: str | None) -> None:
    done = cli(*arguments(rows, *more))
    if text is None:
        assert done.code == 0
        assert "is one file, and all its rows are taken" in done.err
        return
    assert done.code == 2
    assert text in done.err


def test_a_data_set_that_is_not_there_is_told(cli: Any, tmp_path: Path) -> None:
    done = cli(*arguments(tmp_path / "none.jsonl"))
    assert done.code == 2
    assert "There is no data set" in done.err


def test_output_in_a_format_that_is_named_no_more_is_removed_and_told(cli: Any, rows: Path) -> None:
    """It would be of fewer rows than the rest of the folder."""
    assert cli(*arguments(rows, "--format", "sharegpt")).code == 0
    with rows.open("a") as file:
        file.write(json.dumps({"question": "What is 8 + 1?"}) + "\n")
    done = cli(*arguments(rows, "--format", "openai"))
    assert done.code == 0
    assert "`sharegpt.jsonl`" in done.err
    assert not Path("answers/sharegpt.jsonl").exists()
    assert Path("answers/openai.jsonl").exists()


def test_a_parquet_file_is_written_wherever_its_library_is(cli: Any, rows: Path) -> None:
    pytest.importorskip("pyarrow")
    assert cli(*arguments(rows)).code == 0
    assert Path("answers/train.parquet").exists()


def test_a_broken_row_is_named_by_its_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "What is 1 + 1?"}\n\n{"question"\n')
    done = cli(*arguments(tmp_path / "rows.jsonl", "--json"))
    errors = [line.get("error") for line in done.lines if line["what"] == "item"]
    assert any(str(error).startswith("line 3: the row is no JSON: Expect") for error in errors)


def test_toolsets_are_drawn_for_each_row(cli: Any, rows: Path) -> None:
    done = cli(*arguments(rows, "--toolsets", EXAMPLE / "toolsets.toml", "--json", "-n", 4))
    assert done.code == 0
    assert set(done.lines[-1]["toolsets"]) <= {"almanac", "sums"}
    assert done.lines[-1]["toolsets"]


def test_items_that_failed_for_good_make_it_incomplete(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "crew.py").write_text(
        "from rolecraft import Action, Role\n"
        "class Break(Action):\n"
        "    async def run(self, history):\n"
        "        if 'b' in history[-1].content:\n"
        "            raise ValueError('broken')\n"
        "        return 'fine'\n"
        "role = Role(name='R', actions=[Break])\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    done = cli("batch", tmp_path / "rows.jsonl", "--team", "crew.py:role")
    assert done.code == 3
    assert "failed:permanent" in done.out


def test_what_may_pass_is_tried_so_often(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "crew.py").write_text(
        "from rolecraft import Action, Role\n"
        "class Lose(Action):\n"
        "    async def run(self, history):\n"
        "        raise ConnectionError('lost')\n"
        "role = Role(name='R', actions=[Lose])\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n')
    done = cli("batch", tmp_path / "rows.jsonl", "--team", "crew.py:role", "--tries", 2)
    assert done.code == 3
    assert json.loads(Path("batch/ledger.jsonl").read_text().splitlines()[-1])["attempts"] == 2


def test_a_run_with_stdout_closed_works(tmp_path: Path, rows: Path) -> None:
    """R13. What is opened next must not become stdout to whoever prints."""
    for json_lines in ("", "--json"):
        out = tmp_path / f"out{json_lines}"
        command = (
            f"exec {sys.executable} -m rolecraft.cli batch {rows} --team "
            f"{EXAMPLE / 'team.py'}:team --out {out} {json_lines} >&-"
        )
        done = subprocess.run(
            ["sh", "-c", command],
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        lines = (out / "ledger.jsonl").read_text().splitlines()
        assert len(lines) == 7
        assert all(json.loads(line) for line in lines)


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import asyncio\n"
        "from rolecraft import Action, Role\n"
        "class Wait(Action):\n"
        "    async def run(self, history):\n"
        "        await asyncio.sleep(0.05 if 'a' in history[-1].content else 3600)\n"
        "role = Role(name='R', actions=[Wait])\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "rolecraft.cli", "batch", "rows.jsonl", "--team", "slow.py:role"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    ledger = tmp_path / "batch" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if ledger.exists() and len(ledger.read_text().splitlines()) == 2:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "What is finished is in `batch`. Go on: rolecraft batch rows.jsonl" in said
    assert len(ledger.read_text().splitlines()) == 2
