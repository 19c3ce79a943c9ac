"""A run in the background outlives the terminal, and says how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.training.background import (
    DiedAtOnce,
    OutputClaimed,
    ProcessId,
    RunError,
    RunRecord,
    claim,
    claimant,
    find_run,
    follow,
    last_lines,
    name_of,
    outputs_in,
    progress_of,
    read_logs,
    resume,
    runs,
    start_in_background,
    stop,
)
from rolecraft.training.background.process import left_behind

ROOT = Path(__file__).parents[3]
AT_ONCE = 0.0


def record_of(output: Path) -> RunRecord:
    record = RunRecord.read(output)
    assert record is not None
    return record


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_a_run_survives_the_death_of_everything_that_started_it(
    tmp_path, command, eventually
) -> None:
    """The starter, its process group, and the hangup that a closed terminal sends."""
    output = tmp_path / "out"
    starter = subprocess.Popen(
        python(
            f"""
            import os, sys, time
            from pathlib import Path
            from rolecraft.training.background import start_in_background
            start_in_background({command(output)!r}, Path({str(output)!r}), watch_seconds=0)
            print("started", flush=True)
            time.sleep(1000)
            """
        ),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"started\n"
    os.killpg(starter.pid, signal.SIGHUP)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    record = record_of(output)
    assert record.process is not None
    record.process.send(signal.SIGHUP)
    eventually(lambda: progress_of(output), "the first step")
    first = progress_of(output)["step"]
    eventually(lambda: progress_of(output)["step"] > first + 3, "steps after its starter died")
    assert record.state() == "running"
    assert os.getsid(record.process.pid) != os.getsid(0)


def test_what_was_started_is_said_with_pid_log_and_how_to_follow_and_stop(
    tmp_path, command
) -> None:
    run = start_in_background(command(tmp_path / "out"), tmp_path / "out", watch_seconds=AT_ONCE)
    text = str(run)
    assert f"process {run.pid}" in text
    assert str(run.log) in text
    assert f"rolecraft runs logs -f {run.output}" in text
    assert f"rolecraft runs stop {run.output}" in text
    assert re.fullmatch(r"\d{8}-\d{6}\.log", run.log.name)
    assert run.log.parent == run.output / "logs"


def test_the_pid_file_has_what_tells_the_process_and_what_repeats_the_command(
    tmp_path, command, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = start_in_background(command("out"), Path("out"), watch_seconds=AT_ONCE)
    found = json.loads((run.output / "run.json").read_text("utf-8"))
    assert found["process"]["pid"] == run.pid
    assert found["process"]["started"]
    assert found["process"]["boot"] == ProcessId.this().boot
    assert found["command"] == command("out")
    assert found["folder"] == str(tmp_path)


def test_a_run_reads_nothing_from_the_terminal(tmp_path) -> None:
    run = start_in_background(
        python("import sys; print(repr(sys.stdin.read()))"), tmp_path, watch_seconds=60
    )
    assert "''" in run.log.read_text()


def test_a_run_that_dies_at_once_is_told_with_the_end_of_its_log(tmp_path) -> None:
    code = "import sys; print('no such model: x'); sys.exit(7)"
    with pytest.raises(DiedAtOnce, match="exit code 7") as caught:
        start_in_background(python(code), tmp_path, watch_seconds=60)
    assert "no such model: x" in str(caught.value)
    assert record_of(tmp_path).state() == "failed"


def test_a_program_that_is_not_there_is_told_as_such(tmp_path) -> None:
    with pytest.raises(DiedAtOnce, match="`/nowhere/program` cannot be run"):
        start_in_background(["/nowhere/program"], tmp_path, watch_seconds=60)


def test_a_run_that_is_done_at_once_has_not_died(tmp_path) -> None:
    run = start_in_background(python("print('done')"), tmp_path, watch_seconds=60)
    assert record_of(run.output).state() == "finished"


def test_an_output_that_cannot_be_written_is_told(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written to"):
        start_in_background(python("pass"), tmp_path / "file")


def test_no_command_is_wrong_usage(tmp_path) -> None:
    with pytest.raises(UsageError, match="no command"):
        start_in_background([], tmp_path)


def test_a_second_run_is_refused_with_pid_time_and_log(tmp_path, command) -> None:
    run = start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    with pytest.raises(OutputClaimed) as caught:
        start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    assert caught.value.pid == run.pid
    assert caught.value.log == run.log
    assert f"process {run.pid}, since {record_of(tmp_path).started}" in str(caught.value)
    assert len(list((tmp_path / "logs").glob("*.log"))) == 1


def test_a_stopped_run_writes_its_checkpoint_and_ends_with_143(
    tmp_path, command, eventually
) -> None:
    start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    eventually(lambda: progress_of(tmp_path), "the first step")
    ended = stop(record_of(tmp_path), wait_seconds=60)
    assert ended.state() == "stopped"
    assert ended.ended is not None
    assert ended.ended.exit_code == 143
    assert int((tmp_path / "step").read_text()) == progress_of(tmp_path)["step"]
    assert progress_of(tmp_path)["loss"] == pytest.approx(1 / progress_of(tmp_path)["step"])
    with pytest.raises(RunError, match=r"No run is under way.*was stopped \(exit code 143\)"):
        stop(ended, wait_seconds=1)


def test_a_run_that_does_not_listen_is_still_there_until_it_is_killed(tmp_path, eventually) -> None:
    deaf = python(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf")
        time.sleep(1000)
        """
    )
    run = start_in_background(deaf, tmp_path, watch_seconds=AT_ONCE)
    eventually(lambda: "deaf" in run.log.read_text(), "its word that it does not listen")
    with pytest.raises(RunError, match=f"Process {run.pid} .* is still there"):
        stop(record_of(tmp_path), wait_seconds=0.2)
    ended = stop(record_of(tmp_path), wait_seconds=60, kill=True)
    assert ended.state() == "killed"
    assert "was killed by SIGKILL" in ended.how_it_ended()


def test_a_number_that_another_process_has_now_is_not_taken_for_the_run(
    tmp_path, command, stranger
) -> None:
    """The pid file names the number of a process that began at another time: it gets no signal."""
    start_in_background(python("print(1)"), tmp_path, watch_seconds=60)
    path = tmp_path / "run.json"
    found = json.loads(path.read_text())
    found["process"] |= {"pid": stranger.pid}
    path.write_text(json.dumps(found | {"ended": None, "supervisor": None}))
    record = record_of(tmp_path)
    assert record.state() == "killed"
    with pytest.raises(RunError, match="No run is under way"):
        stop(record, wait_seconds=1, kill=True)
    assert record.process is not None
    assert not record.process.send(signal.SIGKILL)
    assert stranger.alive


def test_another_boot_is_another_process(stranger) -> None:
    other = ProcessId(stranger.pid, stranger.started, "another boot", stranger.host)
    assert not other.alive
    assert not other.send(signal.SIGKILL)
    assert stranger.alive


def test_after_kill_9_of_all_of_it_the_next_run_takes_over(tmp_path, command, eventually) -> None:
    start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    eventually(lambda: claimant(tmp_path), "the claim of the run")
    record = record_of(tmp_path)
    for process in (record.supervisor, record.process):
        assert process is not None
        process.send(signal.SIGKILL)
        assert process.wait(60)
    assert record_of(tmp_path).state() == "killed"
    assert "left no word" in record_of(tmp_path).how_it_ended()
    with claim(tmp_path):
        pass


def test_processes_that_a_dead_run_left_are_named_and_left_alone(tmp_path, eventually) -> None:
    """Two of them: one in its session, one in a session of its own; both are those of the run."""
    run = start_in_background(
        python(
            """
            import subprocess, sys, time
            wait = [sys.executable, "-c", "import time; time.sleep(1000)"]
            subprocess.Popen(wait)
            subprocess.Popen(wait, start_new_session=True)
            print("both started")
            time.sleep(1000)
            """
        ),
        tmp_path,
        watch_seconds=AT_ONCE,
    )
    eventually(lambda: "both started" in run.log.read_text(), "its workers")
    assert not record_of(tmp_path).stale()
    ended = stop(record_of(tmp_path), wait_seconds=60, kill=True)
    left = ended.stale()
    assert len(left) == 2
    assert ended.state() == "stale"
    assert all(process.alive for process in left)
    for process in left:
        process.send(signal.SIGKILL)
        assert process.wait(60)
    assert ended.state() == "killed"


def test_processes_are_not_looked_for_across_a_boot(tmp_path, command, eventually) -> None:
    run = start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    eventually(lambda: claimant(tmp_path), "the claim of the run")
    record = record_of(tmp_path)
    assert record.supervisor is not None
    left = left_behind(record.mark, session=record.supervisor)
    assert [process.pid for process in left] == [run.pid]
    before = replace(record.supervisor, boot="another boot")
    assert left_behind(record.mark, session=before) == []


def test_resume_repeats_the_command_in_its_folder(tmp_path, command, eventually) -> None:
    output = tmp_path / "out"
    start_in_background(command(output), output, watch_seconds=AT_ONCE)
    eventually(lambda: progress_of(output), "the first step")
    stop(record_of(output), wait_seconds=60)
    step = int((output / "step").read_text())
    again = resume(record_of(output), watch_seconds=AT_ONCE)
    eventually(lambda: "step" in again.log.read_text(), "the first line of the resumed run")
    assert again.log.read_text().startswith(f"from step {step}\n")
    assert record_of(output).command[-1] == "--resume"
    with pytest.raises(OutputClaimed):
        resume(record_of(output))
    stop(record_of(output), wait_seconds=60)
    third = resume(record_of(output), watch_seconds=AT_ONCE)
    assert record_of(output).command.count("--resume") == 1
    assert len({again.log, third.log}) == 2


def test_the_log_is_followed_across_a_resume_until_the_run_ends(
    tmp_path, command, eventually
) -> None:
    start_in_background(command(tmp_path), tmp_path, watch_seconds=AT_ONCE)
    eventually(lambda: progress_of(tmp_path), "the first step")
    told: list[str] = []
    resumed = False
    for text in follow(tmp_path, linger_seconds=0):
        told.append(text)
        if not resumed and "step" in text:
            stop(record_of(tmp_path), wait_seconds=60)
            step = int((tmp_path / "step").read_text())
            ending = replace(record_of(tmp_path), command=tuple(command(tmp_path, step + 5)))
            resume(ending, watch_seconds=AT_ONCE)
            resumed = True
    text = "".join(told)
    assert f"checkpoint {step}\n" in text
    assert text.count("==> ") == 2
    assert f"from step {step}\nstep {step + 1}\n" in text
    assert f"checkpoint {step + 5}\n" in text
    assert text.endswith("The run ended with exit code 0.\n")
    assert text == "".join(read_logs(tmp_path))


def test_runs_are_found_by_folder_name_and_begin_of_a_name(tmp_path) -> None:
    index = tmp_path / "index"
    for name in ("a", "b"):
        start_in_background(python("pass"), tmp_path / name, index=index, watch_seconds=60)
    assert {name_of(output) for output in outputs_in(index, on_error=pytest.fail)} == {
        name_of(tmp_path / "a"),
        name_of(tmp_path / "b"),
    }
    assert find_run(str(tmp_path / "a"), index).output == tmp_path / "a"
    assert find_run(name_of(tmp_path / "b"), index).output == tmp_path / "b"
    assert find_run("b-", index).output == tmp_path / "b"
    with pytest.raises(UsageError, match="'c' is not known"):
        find_run("c", index)
    with pytest.raises(UsageError, match=r"has no `run\.json`"):
        find_run(str(index), index)


def test_a_run_whose_folder_has_gone_is_told_as_such(tmp_path) -> None:
    index = tmp_path / "index"
    start_in_background(python("pass"), tmp_path / "there", index=index, watch_seconds=60)
    start_in_background(python("pass"), tmp_path / "gone", index=index, watch_seconds=60)
    (tmp_path / "gone").rename(tmp_path / "moved")
    there, gone = runs(index, on_error=pytest.fail)
    assert isinstance(there, RunRecord)
    assert gone == tmp_path / "gone"
    # What moved is still a run, with its log.
    moved = record_of(tmp_path / "moved")
    assert moved.log is not None
    assert moved.log.is_file()
    with pytest.raises(UsageError, match="is not there any more"):
        find_run("gone-", index)


def test_a_broken_record_is_an_error_that_names_the_file(tmp_path) -> None:
    (tmp_path / "run.json").write_text('{"output": 3')
    with pytest.raises(RunError, match=r"run\.json` cannot be read"):
        RunRecord.read(tmp_path)


def test_the_progress_of_a_run_of_several_roles_is_that_of_the_role_it_is_at(tmp_path) -> None:
    for at, role in enumerate(("planner", "coder", "critic")):
        (tmp_path / role).mkdir()
        log = tmp_path / role / "log.jsonl"
        log.write_text(json.dumps({"step": at + 1, "loss": 0.5}) + "\n")
        os.utime(log, (at % 2, at % 2))
    assert progress_of(tmp_path) == {"step": 2, "loss": 0.5}


def test_the_end_of_a_log_is_read_without_reading_all_of_it(tmp_path) -> None:
    path = tmp_path / "long"
    path.write_text("".join(f"{number}\n" for number in range(100_000)))
    assert last_lines(path, 2) == ["99998", "99999"]
    assert last_lines(tmp_path / "none", 2) == []
