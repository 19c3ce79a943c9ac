"""The processes of a distributed run: all of them, or none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.training.background import ProcessId, free_port, launch, reserved_port

ROOT = Path(__file__).parents[3]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares a port in this way")
def test_a_reserved_port_is_for_the_server_alone() -> None:
    """Nobody who asks for any free port is given it; torch's store, which reuses, can have it."""
    with reserved_port() as port:
        with contextlib.ExitStack() as stack:
            taken = set()
            for _ in range(500):
                other = stack.enter_context(socket.socket())
                other.bind(("127.0.0.1", 0))
                taken.add(other.getsockname()[1])
            assert port not in taken
        with pytest.raises(OSError, match="in use"), socket.socket() as rude:
            rude.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):  # it sets SO_REUSEADDR
            socket.create_connection(("127.0.0.1", port)).close()


def test_each_process_is_told_its_rank_and_the_common_port(tmp_path) -> None:
    code = """
        import json, os, sys
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
        told = [os.environ[name] for name in (*names, "MASTER_PORT")]
        open(os.environ["RANK"] + ".json", "w").write(json.dumps(told))
    """
    with contextlib.chdir(tmp_path):
        assert launch(python(code), 2) == 0
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first[:5] == ["0", "0", "2", "2", "127.0.0.1"]
    assert second[:5] == ["1", "1", "2", "2", "127.0.0.1"]
    assert first[5] == second[5]


def test_less_than_one_process_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="at least one process, not 0"):
        launch(python("pass"), 0)


def test_when_one_dies_the_others_are_ended_and_its_code_is_the_runs() -> None:
    code = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(9)
        time.sleep(1000)
    """
    assert launch(python(code), 3) == 9


def test_one_that_was_killed_is_128_and_the_signal() -> None:
    code = """
        import os, signal, time
        if os.environ["RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)
    """
    assert launch(python(code), 2) == 128 + signal.SIGKILL


def test_one_that_hangs_when_another_died_is_killed_after_the_grace() -> None:
    code = """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.environ["RANK"] == "1":
            sys.exit(9)
        time.sleep(1000)
    """
    assert launch(python(code), 2, grace_seconds=0.5) == 9


LAUNCHER = """
import sys
from rolecraft.training.background import launch
sys.exit(launch([sys.executable, "-c", sys.argv[1]], 2))
"""
WORKER = """
import os, sys, time
from rolecraft.training.background import StopSignals
with StopSignals() as stop:
    open(os.environ["RANK"] + ".pid", "w").write(str(os.getpid()))
    while not stop.asked:
        time.sleep(0.02)
open(os.environ["RANK"] + ".checkpoint", "w").close()
sys.exit(stop.exit_code)
"""


@pytest.fixture
def launched(tmp_path, eventually):
    """A launcher in a process of its own, with two workers at work; and the workers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, WORKER], cwd=tmp_path, env=environment
    ) as launcher:
        files = [tmp_path / f"{rank}.pid" for rank in range(2)]
        eventually(lambda: all(f.exists() and f.read_text() for f in files), "both workers")
        workers = [ProcessId.of(int(file.read_text())) for file in files]
        yield launcher, workers
        launcher.kill()


def test_a_run_that_is_told_to_stop_stops_as_its_processes_do(launched, tmp_path) -> None:
    launcher, _ = launched
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 143
    assert len(list(tmp_path.glob("*.checkpoint"))) == 2


def test_no_process_outlives_a_launcher_that_was_killed(launched) -> None:
    launcher, workers = launched
    launcher.kill()
    assert all(worker.wait(60) for worker in workers)


@pytest.mark.slow
def test_torch_finds_its_processes_on_the_reserved_port(tmp_path) -> None:
    pytest.importorskip("torch")
    code = """
        import os, torch, torch.distributed as dist
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        number = torch.tensor([dist.get_rank() + 1])
        dist.all_reduce(number)
        open(os.environ["RANK"] + ".sum", "w").write(str(number.item()))
        dist.destroy_process_group()
    """
    with contextlib.chdir(tmp_path):
        assert launch(python(code), 2) == 0
    assert [(tmp_path / f"{rank}.sum").read_text() for rank in range(2)] == ["3", "3"]
