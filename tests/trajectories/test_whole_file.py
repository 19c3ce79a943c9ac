"""A file that is replaced is the old one or the new one, whenever it is looked at."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.trajectories.whole_file import write_whole


def test_text_and_bytes_take_the_place_of_what_was_there_and_leave_nothing_beside(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "first é \ud800")
    assert path.read_bytes() == "first é \\ud800".encode()
    write_whole(path, b"second\n")
    assert path.read_bytes() == b"second\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_the_disk_does_not_take_costs_nothing_that_is_there(tmp_path: Path) -> None:
    """A file that may not grow is as a full disk: part of it is written, and then no more."""
    path = tmp_path / "a.json"
    write_whole(path, "old")

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    code = (
        "import sys; from pathlib import Path\n"
        "from rolecraft.trajectories.whole_file import write_whole\n"
        "write_whole(Path(sys.argv[1]), 'new' * 1000)"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(path)],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "OSError" in done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "a", "x")
