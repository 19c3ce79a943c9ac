"""`rolecraft serve` on a real vLLM: adapters as models, a swap, streams, and an end that waits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ADMIN = "the-admin-key"
QUESTION = [{"role": "user", "content": "Read register b."}]


class Served:
    """The command, in a session of its own, until it says where it serves."""

    def __init__(self, *arguments: object, log: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rolecraft.cli", "serve", *map(str, arguments), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("Serving"):
                break
        else:
            pytest.fail(log.read_text(errors="replace")[-3000:])
        found = re.search(r"http://\S+", self.lines[-1])
        assert found
        self.url = found[0]

    def processes(self) -> dict[int, str]:
        """Living processes of its session, by their titles."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found[int(folder.name)] = title
        return found


@pytest.fixture
def served(base: Path, make_adapter: Any, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "admin").write_text(ADMIN)
    running = Served(
        f"vllm:{base}",
        *("--name", "tiny", "--admin-key-file", tmp_path / "admin"),
        *("--adapter", f"planner={make_adapter(501)}", "--adapter", f"critic={make_adapter(502)}"),
        *("--set", "dtype=float32", "--set", "max_rank=8", "--set", "enforce_eager=true"),
        *("--set", "max_num_seqs=16", "--set", f"kv_cache_memory_bytes={1 << 28}"),
        log=tmp_path / "log",
    )
    yield running
    for pid in running.processes():
        os.kill(pid, signal.SIGKILL)
    running.process.wait()
    assert running.process.stdout is not None
    running.process.stdout.close()


def test_adapters_are_models_that_can_be_swapped_and_a_stop_lets_streams_finish(
    served: Served, make_adapter: Any
) -> None:
    import openai

    assert served.lines[0] == "Engine: vLLM (as asked)."
    assert len(served.lines) == 6, "vLLM writes to stderr"
    client = openai.OpenAI(base_url=served.url, api_key="none", timeout=120, max_retries=0)
    assert {model.id for model in client.models.list()} == {"tiny", "planner", "critic"}

    def ask(model: str, **more: Any) -> Any:
        settings = {"temperature": 0, "max_tokens": 12, "logprobs": True, **more}
        return client.chat.completions.create(model=model, messages=QUESTION, **settings)

    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(ask, ["tiny", "planner", "critic"] * 3))
    texts = [answer.choices[0].message.content for answer in answers]
    assert len(set(texts)) == 3
    assert texts[:3] * 3 == texts
    assert [answer.system_fingerprint for answer in answers[:3]] == [
        "tiny@0",
        "planner@1",
        "critic@1",
    ]
    streamed = list(ask("planner", stream=True))
    pieces = [piece.choices[0].delta.content or "" for piece in streamed if piece.choices]
    assert "".join(pieces) == texts[1]
    assert len([piece for piece in pieces if piece]) > 1

    # A stream that began on the old version ends on it.
    going = ask("planner", stream=True, max_tokens=150, temperature=1.0, seed=1)
    first = next(going)
    swapped = httpx.post(
        f"{served.url}/load_lora_adapter",
        headers={"authorization": f"Bearer {ADMIN}"},
        json={"lora_name": "planner", "lora_path": str(make_adapter(503))},
        timeout=120,
    )
    assert swapped.json() == {"name": "planner", "version": 2, "served": "planner@2"}
    new = ask("planner")
    assert new.system_fingerprint == "planner@2"
    assert new.choices[0].message.content != texts[1]
    assert [first, *going][-1].system_fingerprint == "planner@1"
    assert ask("critic").choices[0].message.content == texts[2]

    # Ctrl-C in a terminal reaches the engine's processes too, and they are not to give up.
    titles = served.processes()
    engine = [pid for pid, title in titles.items() if title.startswith("VLLM::")]
    assert engine, titles
    last = ask("critic", stream=True, max_tokens=200, temperature=1.0, seed=2)
    begun = next(last)
    for pid in engine:
        os.kill(pid, signal.SIGINT)
    served.process.send_signal(signal.SIGTERM)
    ended = [begun, *last][-1]
    assert ended.choices[0].finish_reason in ("stop", "length")
    assert served.process.wait(120) == 0
    deadline = time.monotonic() + 20  # what counts their shared memory ends a moment later
    while served.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not served.processes()
