"""Where models and data sets come from: options first, then the variables of Hugging Face."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._hub import fetch_shown, hub_settings
from rolecraft.cli._output import Output
from rolecraft.training.hub import HubError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch, tmp_path) -> None:
    for name in ("ENDPOINT", "HUB_OFFLINE", "HUB_CACHE", "HOME", "TOKEN", "TOKEN_PATH"):
        monkeypatch.delenv(f"HF_{name}", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_anything_it_is_the_public_hub_and_the_usual_cache(tmp_path) -> None:
    settings = hub_settings()
    assert settings.endpoint == "https://huggingface.co"
    assert settings.cache == tmp_path / ".cache/huggingface/hub"
    assert not settings.offline
    assert settings.token == ""


def test_variables_of_hugging_face_are_honoured(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/token").write_text("of the file\n")
    settings = hub_settings()
    assert settings.endpoint == "https://mirror.example"
    assert settings.cache == tmp_path / "hf/hub"
    assert settings.offline
    assert settings.token == "of the file"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "of the variable")
    assert hub_settings().cache == tmp_path / "cache"
    assert hub_settings().token == "of the variable"


def test_options_come_before_variables(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    settings = hub_settings(True, "http://mine.example", tmp_path / "mine", 7.0)
    assert settings.endpoint == "http://mine.example"
    assert settings.cache == tmp_path / "mine"
    assert settings.offline
    assert settings.read_seconds == 7.0
    assert str(settings) == f"Hub: offline, from the cache alone; cache: {tmp_path / 'mine'}"


def test_an_address_without_http_is_a_wrong_command_line() -> None:
    with pytest.raises(CommandLineError, match="begins with http"):
        hub_settings(endpoint="mirror")


def test_the_settings_are_shown_before_anything_is_asked(capsys, tmp_path) -> None:
    settings = hub_settings(endpoint="http://127.0.0.1:9", offline=True, cache=tmp_path)
    with pytest.raises(HubError, match="--offline asks nobody"):
        fetch_shown("team/tiny", "model", settings, Output(json=False))
    assert f"Hub: offline, from the cache alone; cache: {tmp_path}" in capsys.readouterr().err
    assert fetch_shown(tmp_path, "model", settings, Output(json=False)) == tmp_path
    assert capsys.readouterr().err == ""


def test_a_token_that_others_could_read_on_the_way_is_warned_of(
    capsys, monkeypatch, tmp_path
) -> None:
    """Before it is sent: to an address without https that is not this machine's."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    settings = hub_settings(endpoint="http://127.0.0.1.invalid:9", cache=tmp_path, timeout=0.2)
    with pytest.raises(HubError):
        fetch_shown("team/tiny", "model", replace(settings, retries=0), Output(json=False))
    told = capsys.readouterr().err
    assert "The token goes to http://127.0.0.1.invalid:9 unencrypted" in told
    assert "secret" not in told


@pytest.mark.parametrize("imported", ["", "import huggingface_hub; "], ids=["before", "after"])
def test_after_the_downloads_no_library_asks_a_hub(imported) -> None:
    """Whether huggingface_hub, which reads its variables once, was imported before or not."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None:
            pass

    look_up = (
        "from huggingface_hub import HfApi\n"
        "try: HfApi().model_info('team/tiny')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    block = f"{imported}from rolecraft.cli._hub import no_more_downloads; no_more_downloads()\n"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        env = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}", "HOME": "/nowhere"}

        def said(code: str) -> str:
            line = [sys.executable, "-c", code]
            return subprocess.check_output(line, cwd=ROOT, env=env, text=True)

        assert said(look_up) != "OfflineModeIsEnabled\n"
        assert "/api/models/team/tiny" in asked
        asked.clear()
        assert said(block + look_up) == "OfflineModeIsEnabled\n"
        assert asked == []
        server.shutdown()
        thread.join()
