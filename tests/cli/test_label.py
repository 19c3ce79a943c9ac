"""`rolecraft label`: what it says before the page, the page of a real process, and the export."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.labels import read_labels
from rolecraft.trajectories import Event, Trajectory
from rolecraft.viewer.labelling import Desk, open_traces


@pytest.fixture
def run(tmp_path: Path) -> Path:
    events = [
        Event("message", role="user", content="read b", to=("planner",), seq=0),
        Event("message", role="planner", content="I read c", to=("<all>",), seq=1),
    ]
    about = {"roles": [{"name": "planner"}]}
    return Trajectory("a", about, events).save(tmp_path / "runs" / "a.jsonl")


@pytest.fixture
def started() -> Iterator[Any]:
    """`started(*arguments)`: the command as a process, and the address that it prints."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **env: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rolecraft.cli", "label", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={key: text for key, text in os.environ.items() if "DISPLAY" not in key} | env,
        )
        processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                return process, found[0]
        raise AssertionError(process.communicate()[1])

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def visit(address: str) -> Iterator[httpx.Client]:
    """A client that the page has let in."""
    base = address.partition("/?")[0]
    with httpx.Client(base_url=base, headers={"Origin": base}) as client:
        assert client.get(address).status_code == 200
        yield client


def label_everything(client: httpx.Client, said: dict[str, str]) -> str:
    """Ann says `said` of all modes and finishes the only trace; its key."""
    assert client.post("/api/join", json={"name": "Ann"}).status_code == 200
    project = client.get("/api/project", params={"annotator": "Ann"}).json()
    (trace,) = project["traces"]
    about = {"annotator": "Ann", "trace": trace["key"]}
    for mode in project["modes"]:
        edit = {"field": f"mode/{mode['id']}", "value": said, "base": 0, "in_round": 1}
        assert client.post("/api/edit", json=about | edit).status_code == 200
    assert client.post("/api/finish", json=about).status_code == 200
    return str(trace["key"])


def test_a_page_is_served_until_it_is_interrupted_and_labels_stay(
    cli: Any, run: Path, started: Any, tmp_path: Path
) -> None:
    process, address = started(run, "--out", tmp_path / "labels")
    assert re.match(r"http://127\.0\.0\.1:\d+/\?token=\S{30,}", address)
    with visit(address) as client:
        label_everything(client, {"verdict": "absent"})
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    assert "Everything is saved" in told
    result = cli("label", run, "--out", tmp_path / "labels", "--export", tmp_path / "exported")
    assert result.code == ExitCode.OK
    assert str(tmp_path / "exported" / "round-1.jsonl") in result.out.replace("\n", "")
    (row,) = read_labels(tmp_path / "exported" / "round-1.jsonl")
    assert row.annotator == "Ann"
    assert {row.verdict(mode) for mode in MODES} == {"absent"}


def test_the_browser_is_opened_without_the_key_on_its_command_line(
    run: Path, started: Any, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o755)
    process, address = started(run, DISPLAY=":0", BROWSER=str(browser))
    asked = told.read_text().strip()
    opener = Path(asked.removeprefix("file://"))
    assert opener == tmp_path / "labels" / "open.html"
    assert address.partition("token=")[2] in opener.read_text()
    with visit(address):  # it answers, so all of the start is done
        process.send_signal(signal.SIGINT)
        process.wait()
    assert not opener.exists()


def test_a_page_that_is_killed_loses_nothing(run: Path, started: Any, tmp_path: Path) -> None:
    process, address = started(run, "--out", tmp_path / "labels")
    with visit(address) as client:
        client.post("/api/join", json={"name": "Ann"})
        (trace,) = client.get("/api/project").json()["traces"]
        edit = {"annotator": "Ann", "trace": trace["key"], "field": "note", "value": "typed"}
        client.post("/api/edit", json=edit | {"base": 0, "in_round": 1})
    process.kill()
    process.wait()
    _, again = started(run, "--out", tmp_path / "labels")
    with visit(again) as client:
        about = {"annotator": "Ann", "trace": trace["key"]}
        assert client.get("/api/sheet", params=about).json()["values"] == {"note": "typed"}


def test_modes_of_ones_own_are_labelled_too(run: Path, started: Any, tmp_path: Path) -> None:
    modes = tmp_path / "modes.toml"
    modes.write_text(
        '[[mode]]\nid = "letter.wrong"\nname = "Wrong letter"\ncategory = "system_design"\n'
        'stages = ["during"]\ndefinition = "Another register is read."\n'
        'positive = "Asked for b, `planner` reads c."\nnear_miss = "It reads b late."\n'
    )
    _, address = started(run, "--out", tmp_path / "labels", "--modes", modes)
    with visit(address) as client:
        known = client.get("/api/project").json()["modes"]
        assert known[-1]["id"] == "letter.wrong"
        label_everything(client, {"verdict": "absent"})
        line = json.loads(client.get("/export/round-1.jsonl", params={"annotator": "Ann"}).text)
    assert line["findings"][-1]["mode"] == "letter.wrong"


def test_what_annotate_says_can_be_suggested(
    cli: Any, run: Path, started: Any, tmp_path: Path
) -> None:
    suggestions = tmp_path / "suggestions.jsonl"
    suggestions.write_text(cli("annotate", run, "--json").out)
    _, address = started(run, "--suggest", suggestions)
    with visit(address) as client:
        client.post("/api/join", json={"name": "Ann"})
        (trace,) = client.get("/api/project").json()["traces"]
        assert trace["suggestions"] is True
        about = {"annotator": "Ann", "trace": trace["key"]}
        assert client.post("/api/suggest", json=about).json()
        assert client.get("/api/sheet", params=about).json()["saw"] != []


def test_suggestions_about_other_traces_are_a_mistake(cli: Any, run: Path, tmp_path: Path) -> None:
    suggestions = tmp_path / "s.jsonl"
    suggestions.write_text('{"trace": "elsewhere.jsonl", "findings": []}\n')
    result = cli("label", run, "--suggest", suggestions, "--export", tmp_path / "x")
    assert result.code == ExitCode.USAGE
    assert "`elsewhere.jsonl`" in result.err
    assert str(run) in result.err.replace("\n", "")


def test_nothing_to_read_is_an_error_that_says_why(cli: Any, tmp_path: Path) -> None:
    result = cli("label", tmp_path / "missing")
    assert result.code == ExitCode.ERROR
    assert "there is no such file or folder" in result.err


def test_a_broken_file_beside_good_ones_is_named(cli: Any, run: Path, tmp_path: Path) -> None:
    (run.parent / "bad.json").write_text("{")
    result = cli("label", run.parent, "--export", tmp_path / "x")
    assert result.code == ExitCode.ERROR  # nothing is labelled yet
    assert "bad.json" in result.err


def test_labels_of_a_trace_that_is_not_open_are_named(
    cli: Any, run: Path, started: Any, tmp_path: Path
) -> None:
    process, address = started(run)
    with visit(address) as client:
        label_everything(client, {"verdict": "absent"})
    process.kill()
    other = Trajectory("b", {}, [Event("message", role="x", content="y", seq=0)]).save(
        tmp_path / "b.jsonl"
    )
    result = cli("label", other, "--export", tmp_path / "x")
    assert f"`{run}`" in result.err.replace("\n", "")
    assert "by Ann" in result.err


def test_a_port_that_is_taken_is_one_line(cli: Any, run: Path, started: Any) -> None:
    _, address = started(run)
    port = re.search(r":(\d+)/", address)
    assert port is not None
    result = cli("label", run, "--port", port[1], "--no-browser")
    assert result.code == ExitCode.ERROR
    assert f"Port {port[1]} cannot be used" in result.err


def test_without_the_extra_it_says_what_to_install(
    cli: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = cli("label", run, "--no-browser")
    assert result.code == ExitCode.ERROR
    assert "pip install '.[viewer]'" in result.err


def test_an_export_says_which_decisions_have_no_evidence_and_are_left_out(cli, run, tmp_path):
    (trace,) = open_traces([run])
    desk = Desk([trace], tmp_path / "labels")
    desk.join("Ann")
    desk.reveal("Ann", trace.key)
    made_up = {"verdict": "present", "events": [1], "role": "planner", "quote": "I read nothing"}
    desk.adjudicate("Ann", trace.key, "mode/reset", made_up, base=0)
    desk.adjudicate("Ann", trace.key, "mode/derailment", {"verdict": "absent"}, base=0)
    result = cli("label", run, "--out", desk.folder, "--export", tmp_path / "exported")
    assert result.code == ExitCode.OK
    said = " ".join(result.err.split())
    assert "Not in gold.jsonl: `reset` of" in said
    assert "quotes what none of its events says." in said
    (row,) = read_labels(tmp_path / "exported" / "gold.jsonl")
    assert [finding.mode for finding in row.findings] == ["derailment"]


def test_an_export_of_nothing_says_so_and_writes_nothing(cli, run, tmp_path):
    """An empty table would look like labels that say nothing."""
    (trace,) = open_traces([run])
    desk = Desk([trace], tmp_path / "labels")
    desk.join("Ann")
    desk.edit("Ann", trace.key, "mode/reset", {"verdict": "absent"}, base=0)
    result = cli("label", run, "--out", desk.folder, "--export", tmp_path / "exported")
    assert result.code == ExitCode.ERROR
    assert "Nothing to export: no round is finished" in result.err
    assert not (tmp_path / "exported").exists()
