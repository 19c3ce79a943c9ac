"""A folder of tasks is the old one or the new one, whoever is killed when."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.synthesis.gathering import whole_folder as module
from rolecraft.synthesis.gathering.whole_folder import whole_folder

WRITER = """
import sys
from pathlib import Path
from rolecraft.synthesis.gathering.whole_folder import whole_folder

path = Path(sys.argv[1])
number = 0
print("ready", flush=True)
while True:
    number += 1
    with whole_folder(path) as new:
        for name in "abcdefgh":
            (new / name).write_text(str(number))
"""


def write(path: Path, text: str) -> None:
    with whole_folder(path) as new:
        (new / "a").write_text(text)


def test_the_new_folder_takes_the_place_of_the_old_one(tmp_path) -> None:
    write(tmp_path / "tasks", "1")
    write(tmp_path / "tasks", "2")
    assert (tmp_path / "tasks" / "a").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]


def test_where_folders_cannot_be_exchanged_it_takes_its_place_all_the_same(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(module, "_exchanged", lambda first, second: False)
    write(tmp_path / "tasks", "1")
    write(tmp_path / "tasks", "2")
    assert (tmp_path / "tasks" / "a").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]


def test_what_raises_leaves_the_old_one(tmp_path) -> None:
    write(tmp_path / "tasks", "1")
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "tasks") as new:
        (new / "a").write_text(str(1 // 0))
    assert (tmp_path / "tasks" / "a").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]


def test_two_at_once_are_refused(tmp_path) -> None:
    with (
        whole_folder(tmp_path / "tasks"),
        pytest.raises(UsageError, match="Another process"),
        whole_folder(tmp_path / "tasks"),
    ):
        pass


def test_one_that_was_killed_between_two_names_is_put_back(tmp_path) -> None:
    write(tmp_path / "tasks", "1")
    (tmp_path / "tasks").rename(tmp_path / ".tasks-was")
    (tmp_path / ".tasks-new-left").mkdir()
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "tasks"):
        raise ZeroDivisionError
    assert (tmp_path / "tasks" / "a").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["tasks"]


def test_kill_9_leaves_a_whole_folder(tmp_path) -> None:
    path = tmp_path / "tasks"
    write(path, "0")
    (tmp_path / "other").mkdir()
    in_one_step = module._exchanged(path, tmp_path / "other")
    if in_one_step:
        assert module._exchanged(path, tmp_path / "other")
    (tmp_path / "other").rmdir()
    rng = random.Random(3)
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            for _ in range(rng.randrange(1, 400)):
                assert path.exists() or not in_one_step, "it is there at every moment"
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
        with pytest.raises(ZeroDivisionError), whole_folder(path):
            raise ZeroDivisionError  # what comes next puts back what has no name
        texts = {each.read_text() for each in path.iterdir()}
        assert len(texts) == 1, "all files are of one writing"
    write(path, "9")
    assert [each.name for each in tmp_path.iterdir()] == ["tasks"]
