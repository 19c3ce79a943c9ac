"""Downloads from a hub end, in a folder or an error: never in silence."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler

import pytest

from rolecraft.training._hub_download import PIECE
from rolecraft.training.hub import HubError, fetch


def test_a_download_then_the_cache_offline(hub, tmp_path) -> None:
    bytes_told: list[tuple[int, int]] = []
    online = hub.settings(tmp_path / "cache")
    folder = fetch(hub.name, "model", online, on_bytes=lambda *told: bytes_told.append(told))
    assert {path.name for path in folder.iterdir()} == {"config.json", "weights.safetensors"}
    assert (folder / "weights.safetensors").read_bytes() == hub.files["weights.safetensors"]
    wanted = len(hub.files["config.json"]) + len(hub.files["weights.safetensors"])
    assert bytes_told[-1] == (wanted, wanted)
    assert tmp_path / "cache" in folder.parents
    assert not (tmp_path / "not here").exists()

    asked = len(hub.asked)
    offline = hub.settings(tmp_path / "cache", offline=True)
    assert fetch(hub.name, "model", offline) == folder
    assert len(hub.asked) == asked
    with pytest.raises(HubError, match="is not in the cache") as caught:
        fetch(hub.name, "dataset", offline)
    assert caught.value.problem == "uncached"

    # What is in the cache is not taken in silence when the hub says no.
    hub.answers["GET /api/"] = lambda handler: hub.send(handler, 403, X_Error_Code="GatedRepo")
    with pytest.raises(HubError, match="is gated"):
        fetch(hub.name, "model", online)


def test_a_data_set(hub, tmp_path) -> None:
    folder = fetch(hub.name, "dataset", hub.settings(tmp_path))
    assert "datasets--team--tiny" in str(folder)
    assert all("/datasets/" in asked for asked in hub.asked)


@pytest.mark.parametrize(
    "stalled",
    [
        pytest.param("GET /api/models/team/tiny/revision", id="repository"),
        pytest.param("GET /api/models/team/tiny/tree", id="tree", marks=pytest.mark.slow),
        pytest.param("HEAD /", id="head of a file", marks=pytest.mark.slow),
        pytest.param("GET /team", id="file", marks=pytest.mark.slow),
    ],
)
def test_a_hub_that_accepts_and_says_nothing_is_an_error(hub, tmp_path, stalled) -> None:
    """huggingface_hub has no time-out of its own for the first two."""
    hub.answers[stalled] = hub.stall
    notes: list[str] = []
    settings = hub.settings(tmp_path, read_seconds=0.3, retries=1)
    with pytest.raises(HubError, match=r"sends nothing for 0\.3 s") as caught:
        fetch(hub.name, "model", settings, note=notes.append)
    assert caught.value.problem == "silent"
    assert "--offline" in str(caught.value)
    assert any("again in 1 s (2 of 2)" in note for note in notes)


def test_a_download_that_stalls_goes_on_where_it_broke_off(hub, tmp_path) -> None:
    data = hub.files["weights.safetensors"]
    times: list[str | None] = []

    def half(handler: BaseHTTPRequestHandler) -> None:
        times.append(handler.headers.get("Range"))
        hub.send_file(handler, "weights.safetensors", cut_at=100_000 if len(times) == 1 else None)
        if len(times) == 1:
            hub.closing.wait(120)

    hub.answers[f"GET /{hub.name}/resolve/{hub.commit}/weights"] = half
    notes: list[str] = []
    settings = hub.settings(tmp_path, read_seconds=0.5)
    folder = fetch(hub.name, "model", settings, note=notes.append)
    assert (folder / "weights.safetensors").read_bytes() == data
    assert len(times) == 2
    assert any("broke off" in note for note in notes)


def test_what_is_there_of_a_file_is_told_before_all_of_it_is(hub, tmp_path) -> None:
    """Over a slow line, too: else it looks as if the download hung."""
    name, data, told = "weights.safetensors", b"w" * (9 * PIECE), threading.Event()
    hub.files[name] = data

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        hub.send_file(handler, name, cut_at=0)
        for start in range(0, len(data), PIECE) if handler.command == "GET" else ():
            handler.wfile.write(data[start : start + PIECE])
            told.wait(1)

    hub.answers[f"HEAD /{hub.name}/resolve/{hub.commit}/weights"] = slowly
    hub.answers[f"GET /{hub.name}/resolve/{hub.commit}/weights"] = slowly

    def on_bytes(done: int, total: int) -> None:
        if PIECE <= done < len(data):
            told.set()

    settings = hub.settings(tmp_path, read_seconds=120)
    folder = fetch(hub.name, "model", settings, on_bytes=on_bytes)
    assert told.is_set()
    assert (folder / name).read_bytes() == data


def test_a_download_that_always_stalls_is_an_error(hub, tmp_path) -> None:
    def nothing(handler: BaseHTTPRequestHandler) -> None:
        hub.send_file(handler, "weights.safetensors", cut_at=0)
        hub.closing.wait(120)

    hub.answers[f"GET /{hub.name}/resolve/{hub.commit}/weights"] = nothing
    with pytest.raises(HubError, match=r"sends nothing for 0\.3 s .*tried 2 times") as caught:
        fetch(hub.name, "model", hub.settings(tmp_path, read_seconds=0.3, retries=1))
    assert caught.value.problem == "silent"
    # What there is of it is not taken for the whole.
    with pytest.raises(HubError) as caught:
        fetch(hub.name, "model", hub.settings(tmp_path, offline=True))
    assert caught.value.problem == "incomplete"


@pytest.mark.slow
def test_a_server_that_is_busy_is_asked_again(hub, tmp_path) -> None:
    busy = [503, 429]

    def first_busy(handler: BaseHTTPRequestHandler) -> None:
        if busy:
            hub.send(handler, busy.pop(), Retry_After="1")
        else:
            del hub.answers["GET /api/models"]
            hub.answer(handler)

    hub.answers["GET /api/models"] = first_busy
    notes: list[str] = []
    fetch(hub.name, "model", hub.settings(tmp_path, retries=2), note=notes.append)
    assert [note for note in notes if "status 429" in note or "status 503" in note] == notes
    assert len(notes) == 2


def test_what_two_threads_say_at_once_are_two_lines() -> None:
    """It comes through a pipe, whose reader takes a line for one event."""
    code = (
        "import threading\n"
        "from rolecraft.training._hub_download import say\n"
        "def talk():\n"
        "    for number in range(2000):\n"
        "        say(bytes=number, of=2000)\n"
        "talking = [threading.Thread(target=talk) for _ in range(4)]\n"
        "[each.start() for each in talking]\n"
        "[each.join() for each in talking]\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(said) == 8000
