"""`vllm serve` as a child: exact tokens over HTTP, crashes, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from rolecraft.errors import AdapterError, ModelError, ModelUnavailable, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ENGINE = {"enforce_eager": True, "max_num_seqs": 16, "kv_cache_memory_bytes": 1 << 28}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(base: Path) -> AsyncIterator[Any]:
    from rolecraft.models.vllm_server import VLLMServer

    async with VLLMServer(
        str(base), name="tiny", seed=3, dtype="float32", max_rank=8, engine=ENGINE, restarts=1
    ) as running:
        yield running


def group(leader: int) -> list[int]:
    """Living processes of the group that `leader` leads."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(folder.name))
    return found


async def test_tokens_and_logprobs_over_http_are_those_of_transformers(
    server: Any, make_adapter: Any, reference: Any
) -> None:
    from rolecraft.models.adapter_proof import token_logprobs

    folder = make_adapter(11)
    await server.model.load_adapter("planner", folder)
    for role, module in (("planner", reference(folder)), ("visitor", reference())):
        session = server.model.session(role, seed=5)
        for turn in range(2):
            answer = await session.generate(
                [Message(f"Part {turn}?")], sampling=Sampling(max_tokens=12)
            )
            span = answer.tokens
            assert span.adapter == ("planner@1" if role == "planner" else "")
            expected = token_logprobs(module, session.tokens)[-len(span.sampled) :]
            assert span.logprobs == pytest.approx(expected, abs=1e-3)
    ids = list(range(40, 100))
    proof = await server.model.verify_adapter(
        "planner", ids, token_logprobs(reference(folder), ids)
    )
    assert proof.gap < 1e-3 < 0.3 < proof.effect


async def test_an_adapter_is_swapped_and_the_old_one_removed(
    server: Any, make_adapter: Any
) -> None:
    await server.model.load_adapter("critic", make_adapter(21))
    await server.model.load_adapter("critic", make_adapter(22))
    await server.model.adapters.settle()
    async with httpx.AsyncClient() as client:
        answer = await client.get(
            f"{server.url}/models", headers={"Authorization": f"Bearer {server.api_key}"}
        )
    names = {model["id"] for model in answer.json()["data"]}
    assert {"tiny", "critic@2"} <= names
    assert "critic@1" not in names
    with pytest.raises(AdapterError, match="refuses the adapter"):
        await server.model.load_adapter("critic", make_adapter(23, modules_to_save=["lm_head"]))
    answer = await server.model.session("critic").generate([Message("Still there?")])
    assert answer.tokens.adapter == "critic@2"


async def test_pieces_come_while_it_writes_and_make_up_the_answer(server: Any) -> None:
    session = server.model.session("visitor")
    pieces: list[str] = []
    session.on_delta = pieces.append
    answer = await session.generate([Message("Tell me.")], sampling=Sampling(max_tokens=40))
    assert len(pieces) > 1
    assert "".join(pieces) == answer.text


async def test_choices_and_top_p_record_what_could_have_been_drawn(server: Any) -> None:
    chosen = await server.model.session("visitor").generate(
        [Message("Yes or no?")], sampling=Sampling(choices=("yes", "no"))
    )
    assert chosen.text in ("yes", "no")
    cut = await server.model.session("visitor").generate(
        [Message("Yes or no?")], sampling=Sampling(top_p=0.4, max_tokens=4)
    )
    for token, support in zip(cut.tokens.sampled, cut.tokens.support, strict=True):
        assert token in support
        assert 1 <= len(support) < 300


async def test_who_has_no_key_is_not_served(server: Any) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{server.url}/models")
    assert answer.status_code == 401


async def test_a_crash_ends_the_answers_under_way_and_the_server_comes_back(
    server: Any, make_adapter: Any
) -> None:
    await server.model.load_adapter("planner", make_adapter(31))
    name = server.model.adapters.current("planner").name
    old = server.pid
    session = server.model.session("planner")
    started = asyncio.Event()
    session.on_delta = lambda piece: started.set()
    asking = asyncio.create_task(
        session.generate([Message("Go on.")], sampling=Sampling(max_tokens=200))
    )
    await started.wait()
    os.killpg(old, signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match=r"`tiny` broke off.*log ends|not there just now"):
        await asking
    while server.pid in (old, None):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    answer = await server.model.session("planner").generate([Message("Are you back?")])
    assert answer.tokens.adapter == name
    assert server.starts == 2
    assert group(old) == []
    # It may be started anew once, and that was it.
    os.killpg(server.pid, signal.SIGKILL)
    await server._watcher
    with pytest.raises(ModelUnavailable, match="exit code -9"):
        await server.model.session("planner").generate([Message("And now?")])


async def test_a_server_that_cannot_start_says_what_its_log_says(base: Path) -> None:
    from rolecraft.models.vllm_server import VLLMServer

    broken = VLLMServer(
        str(base), program=["sh", "-c", "echo one; echo the reason is this >&2; exit 3", "vllm"]
    )
    with pytest.raises(ModelError, match=r"(?s)exit code 3.*the reason is this"):
        await broken.start()
    silent = VLLMServer(
        str(base), program=["sh", "-c", "sleep 600 & sleep 600", "vllm"], start_seconds=0.5
    )
    with pytest.raises(ModelError, match=r"did not answer within 0\.5 s"):
        await silent.start()
    assert group(silent.pid) == []
    with pytest.raises(ModelUnavailable, match="does not run"):
        await silent.model.session("a").generate([Message("Hello?")])
    with pytest.raises(UsageError, match="logprobs_mode"):
        VLLMServer(str(base), engine={"logprobs_mode": "raw_logprobs"})


def test_nothing_is_left_when_the_parent_is_killed(base: Path, tmp_path: Path) -> None:
    """The server's command is a shell with a child here: what matters is its process group."""
    program = textwrap.dedent(
        f"""
        import asyncio, os, signal
        from rolecraft.models.vllm_server import VLLMServer

        async def main():
            server = VLLMServer(
                {str(base)!r}, program=["sh", "-c", "sleep 600 & sleep 600", "vllm"],
                start_seconds=60,
            )
            starting = asyncio.create_task(server.start())
            while server.pid is None:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            print(server.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
        """
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    leader = int(run.stdout)
    for _ in range(500):
        if not group(leader):
            break
        time.sleep(0.02)
    assert group(leader) == []


# Serves what a start looks at; on the port that is named in the environment it says that it is
# taken, with what vLLM says then.
STAND_IN = """
import http.server, json, os, sys

port = int(sys.argv[sys.argv.index("--port") + 1])
taken = os.environ["TAKEN"]
with open(taken, "a") as file:
    print(port, file=file)
if len(open(taken).readlines()) <= int(os.environ["TIMES"]):
    sys.exit("OSError: [Errno 98] Address already in use")

class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "tiny", "max_model_len": 256}]}).encode())

http.server.HTTPServer(("127.0.0.1", port), Answers).serve_forever()
"""


async def test_a_port_that_somebody_else_took_meanwhile_is_replaced_by_another(
    base: Path, tmp_path: Path
) -> None:
    from rolecraft.models.vllm_server import PORTS, VLLMServer

    def made(name: str, times: int, port: int | None = None) -> tuple[VLLMServer, Path]:
        tried = tmp_path / name
        program = ["env", f"TAKEN={tried}", f"TIMES={times}", sys.executable, "-c", STAND_IN]
        return VLLMServer(str(base), name="tiny", program=program, port=port), tried

    server, tried = made("twice", 2)
    async with server:
        ports = tried.read_text().split()
        assert len(ports) == 3
        assert server.url == f"http://127.0.0.1:{ports[-1]}/v1"
        assert server.starts == 1
    always, tried = made("always", 1000)
    with pytest.raises(ModelError, match="Address already in use"):
        await always.start()
    assert len(tried.read_text().split()) == PORTS
    # A port that was asked for is not replaced.
    wanted, tried = made("wanted", 1000, port=8123)
    with pytest.raises(ModelError, match="Address already in use"):
        await wanted.start()
    assert tried.read_text().split() == ["8123"]
