"""LiteLLM is imported on first use, says nothing, reaches no network and leaves no trace.

Each test runs in a process of its own, since a process imports LiteLLM once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# Every attempt to reach anything but this machine is noted, and fails.
NO_NETWORK = """
    import socket, sys
    tried = []
    lookup, connect = socket.getaddrinfo, socket.socket.connect
    def getaddrinfo(host, *rest, **named):
        if host not in ("127.0.0.1", "localhost"):
            tried.append(host)
            raise OSError("no network")
        return lookup(host, *rest, **named)
    def connect_here(self, address):
        if self.family != socket.AF_UNIX and address[0] != "127.0.0.1":
            tried.append(address)
            raise OSError("no network")
        return connect(self, address)
    socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect_here
"""


def run(code: str, *, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    drop = ("LITELLM", "OPENAI")
    env = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=folder,
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_importing_the_models_and_making_one_imports_no_litellm(tmp_path):
    code = """
        import sys
        from rolecraft.models import LiteLLMModel, Retries, resolve_model
        resolve_model("openai/gpt-4o-mini")
        LiteLLMModel("openai/gpt-4o-mini", retries=Retries(times=1))
        heavy = {"litellm", "openai", "httpx", "aiohttp", "tenacity", "torch", "transformers"}
        print(sorted(heavy & sys.modules.keys()))
    """
    result = run(code, folder=tmp_path)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_loading_and_failing_reach_no_network_print_nothing_and_leave_no_trace(tmp_path):
    """The first use fetches no price list, reads no `.env` file, and sets no variables for good."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-dotenv\n")
    code = (
        NO_NETWORK
        + """
    import asyncio, os
    from rolecraft.errors import MissingKey
    from rolecraft.messages import Message
    from rolecraft.models import Budget, Limits, LiteLLMModel

    async def main():
        before = dict(os.environ)
        for name in ("openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"):
            model = LiteLLMModel(name)
            session = model.session(system="Be brief.")
            session.budget = Budget(Limits(usd=1.0, tokens=100_000))
            try:
                await session.generate([Message("Hello?")])
            except MissingKey:
                pass
            else:
                raise AssertionError("there is no key")
            await model.aclose()
        changed = {n: v for n, v in os.environ.items() if before.get(n) != v}
        # Where LiteLLM keeps the tokenizers that it ships: it sets this whenever it is imported.
        changed.pop("TIKTOKEN_CACHE_DIR", None)
        assert changed == {}, changed

    asyncio.run(main())
    assert tried == [], tried
    """
    )
    result = run(code, folder=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.slow
def test_whoever_asks_litellm_for_its_log_still_gets_it(tmp_path):
    code = """
        import logging, litellm
        litellm.turn_on_debug()
        from rolecraft.models import _litellm
        _litellm.load()
        print(logging.getLogger("LiteLLM").getEffectiveLevel() == logging.DEBUG)
    """
    assert run(code, folder=tmp_path).stdout.startswith("True\n")


@pytest.mark.slow
def test_many_threads_may_load_it_at_once(tmp_path):
    code = """
        from concurrent.futures import ThreadPoolExecutor
        from rolecraft.models import _litellm
        with ThreadPoolExecutor(8) as pool:
            loaded = list(pool.map(lambda _: _litellm.load(), range(8)))
        print(len(set(map(id, loaded))), loaded[0].suppress_debug_info)
    """
    result = run(code, folder=tmp_path)
    assert (result.stdout, result.returncode) == ("1 True\n", 0)
