"""`ToolContext`: the sandbox after the run, tools by name, synchronous code in worker threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rolecraft import Action, Message, Role, Team
from rolecraft.actions import tool
from rolecraft.actions.codeact import BashResult, ExecuteBash
from rolecraft.environments.tool_context import ToolContext
from rolecraft.environments.tool_context_web import Page, WebHit
from rolecraft.errors import ActionTimeout, BadToolCall, UnknownName, UsageError
from rolecraft.rewards import Signals, reward
from rolecraft.sandboxes import LocalProcess, SandboxLost, SandboxSpec
from rolecraft.sandboxes.live import LiveSandbox, SandboxFileError
from rolecraft.trajectories.events import Signal


@pytest.fixture
async def sandbox() -> AsyncIterator[LiveSandbox]:
    async with await LocalProcess().create(SandboxSpec(files={"a.py": "x = 1\n"})) as made:
        yield made


@pytest.fixture
async def context(sandbox: LiveSandbox) -> AsyncIterator[ToolContext]:
    async with ToolContext(sandbox) as made:
        yield made


# --- the sandbox ------------------------------------------------------------------------------

ODD_NAMES = [
    "with space",
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "-rf",
    "'q\"",
    "=",
    "ü",
]


async def test_a_command_is_a_line_of_bash_or_a_program_with_its_arguments(
    context: ToolContext,
) -> None:
    line = await context.terminal("echo $HOME | wc -l; exit 3")
    assert (line.stdout.strip(), line.exit_code) == ("1", 3)
    words = await context.terminal(["echo", "$HOME; exit 3"])
    assert (words.stdout, words.ok) == ("$HOME; exit 3\n", True)
    slow = await context.terminal("sleep 30", seconds=0.2)
    assert slow.failure == "timeout"
    await context.terminal("mkdir -p src/deep")
    assert (await context.terminal("basename $PWD", cwd="src/deep")).stdout == "deep\n"
    assert (await context.terminal("echo $A", env={"A": "b"})).stdout == "b\n"


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_no_path_is_ever_taken_for_a_command(
    context: ToolContext, tmp_path: Path, name: str
) -> None:
    """Written, read, searched, uploaded and downloaded: the name stays a name."""
    await context.write_file(f"in/{name}", "needle\n")
    assert (await context.read_file(f"in/{name}")).text == "needle\n"
    found = await context.search("needle", path=f"in/{name}")
    assert [hit.line for hit in found.hits] == [1]
    await context.download_file(f"in/{name}", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "needle\n"
    await context.upload_file(tmp_path / "file", name)
    assert (await context.read_file(name)).data == b"needle\n"
    assert not (await context.terminal(["test", "-e", "pwned"])).ok


async def test_files_and_folders_go_in_and_out(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "b.txt").write_text("b")
    await context.upload_dir(tmp_path / "in", "up")
    assert (await context.read_file("up/deep/b.txt")).text == "b"
    await context.download_dir("up", tmp_path / "out")
    assert (tmp_path / "out" / "deep" / "b.txt").read_text() == "b"


async def test_a_download_takes_no_more_than_it_is_told(
    context: ToolContext, tmp_path: Path
) -> None:
    await context.terminal("mkdir d; head -c 3000 /dev/zero > d/x")
    with pytest.raises(SandboxFileError, match="more than 2999 bytes"):
        await context.download_file("d/x", tmp_path / "x", max_bytes=2999)
    with pytest.raises(SandboxFileError, match="more than 2999 bytes"):
        await context.download_dir("d", tmp_path / "y", max_bytes=2999)
    await context.download_dir("d", tmp_path / "d", max_bytes=3000)
    assert (tmp_path / "d" / "x").stat().st_size == 3000


async def test_what_is_no_file_or_no_folder_is_an_error_that_names_it(
    context: ToolContext, tmp_path: Path
) -> None:
    await context.terminal("mkdir folder")
    with pytest.raises(SandboxFileError, match="nowhere"):
        await context.read_file("nowhere")
    with pytest.raises(SandboxFileError, match="not a file"):
        await context.download_file("folder", tmp_path / "x")
    with pytest.raises(SandboxFileError, match="not a folder"):
        await context.download_dir("a.py", tmp_path / "x")
    with pytest.raises(UsageError, match="is no file"):
        await context.upload_file(tmp_path, "x")
    with pytest.raises(UsageError, match="is no folder"):
        await context.upload_dir(tmp_path / "nowhere", "x")


# --- tools by name ----------------------------------------------------------------------------


async def test_a_tool_is_called_by_name_and_gives_its_typed_result(context: ToolContext) -> None:
    outcome = await context.call("execute_bash", command="cd /; exit 3")
    assert outcome.ok
    assert isinstance(outcome.value, BashResult)
    assert outcome.value.exit_code == 3
    assert outcome.text.startswith("[exit code 3]")
    wrong = await context.call("execute_bash", cmd="ls")
    assert isinstance(wrong.error, BadToolCall)
    with pytest.raises(UnknownName, match=r"Did you mean 'execute_bash'\?"):
        await context.call("execute_bsh", command="ls")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_tool_that_raises_a_runtime_error_is_run_exactly_once(
    sandbox: LiveSandbox, is_async: bool
) -> None:
    """The predecessor took the RuntimeError for that of a missing event loop, and ran it again."""
    runs: list[int] = []

    @tool(name="explode")
    def explode(count: int) -> str:
        runs.append(count)
        raise RuntimeError("no running event loop")

    @tool(name="explode")
    async def explode_later(count: int) -> str:
        runs.append(count)
        raise RuntimeError("no running event loop")

    async with ToolContext(sandbox, tools=[explode_later if is_async else explode]) as context:
        outcome = await context.call("explode", count=7)
        assert runs == [7]
        assert not outcome.ok
        assert isinstance(outcome.error, RuntimeError)
        assert outcome.text == "no running event loop"

        def again() -> None:
            runs.append(8)
            raise RuntimeError("cannot schedule new futures after shutdown")

        with pytest.raises(RuntimeError, match="after shutdown"):
            await context.compute(again)
    assert runs == [7, 8]


async def test_the_tools_of_a_role_are_nobodys_here_and_in_this_sandbox(
    sandbox: LiveSandbox,
) -> None:
    bash = ExecuteBash()
    role = Role(name="Ann", tools=[bash])
    async with ToolContext(sandbox, tools=role.tools) as context:
        assert (await context.call("execute_bash", command="cat a.py")).text.startswith("x = 1")
    with pytest.raises(UsageError, match="has no sandbox"):
        bash.sandbox  # noqa: B018 (it is still nobody's)


async def test_the_time_limit_of_a_tool_holds(sandbox: LiveSandbox) -> None:
    @tool(timeout=0.05)
    async def forever() -> None:
        """Wait."""
        await asyncio.Event().wait()

    async with ToolContext(sandbox, tools=[forever]) as context:
        assert isinstance((await context.call("forever")).error, ActionTimeout)


async def test_what_no_model_could_mend_comes_out(sandbox: LiveSandbox) -> None:
    context = ToolContext(sandbox)
    await sandbox.close()
    with pytest.raises(SandboxLost):
        await context.call("execute_bash", command="true")


async def test_a_closed_context_refuses_and_leaves_the_sandbox_alive(sandbox: LiveSandbox) -> None:
    async with ToolContext(sandbox) as context:
        await context.call("execute_bash", command="echo 1 > kept")
    with pytest.raises(UsageError, match="closed"):
        await context.terminal("true")
    with pytest.raises(UsageError, match="closed"):
        await context.call("execute_bash", command="true")
    assert await sandbox.read("kept") == b"1\n"


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
async def test_a_worker_limit_that_cannot_be_is_refused(sandbox: LiveSandbox, workers: Any) -> None:
    with pytest.raises(UsageError, match="whole number from 1"):
        ToolContext(sandbox, workers=workers)


# --- the web ----------------------------------------------------------------------------------


class Library:
    """Knows two pages."""

    async def search(self, query: str, *, limit: int) -> Sequence[WebHit]:
        return [WebHit(f"https://example.org/{n}", title=query) for n in range(9)]

    async def read(self, url: str) -> Page:
        return Page(url, "A title", "A text")


async def test_the_web_is_asked_through_what_was_given(sandbox: LiveSandbox) -> None:
    library = Library()
    async with ToolContext(sandbox, web=library, pages=library, browser=library) as context:
        hits = await context.web_search("cats", limit=2)
        assert hits == (
            WebHit("https://example.org/0", "cats"),
            WebHit("https://example.org/1", "cats"),
        )
        assert (await context.web_extract(hits[0].url)).text == "A text"
        assert (await context.browser_text(hits[0].url)).title == "A title"


@pytest.mark.parametrize(
    ("method", "argument"),
    [("web_search", "web"), ("web_extract", "pages"), ("browser_text", "browser")],
)
async def test_without_a_provider_the_web_is_refused_by_name(
    context: ToolContext, method: str, argument: str
) -> None:
    with pytest.raises(UsageError, match=rf"`{method}` has nobody to ask.*{argument}=\.\.\."):
        await getattr(context, method)("https://example.org")


# --- worker threads ---------------------------------------------------------------------------


class Count:
    """How many are inside at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


@pytest.mark.parametrize("workers", [1, 3])
async def test_at_most_so_many_synchronous_calls_run_at_once(
    sandbox: LiveSandbox, workers: int
) -> None:
    """Tools and functions share the limit, and all of them come to their turn."""
    inside, meeting = Count(), threading.Barrier(workers)

    @tool
    def work(number: int) -> int:
        """Work."""
        with inside:
            meeting.wait(60)
            time.sleep(0.02)
        return number

    def score(number: int) -> int:
        with inside:
            meeting.wait(60)
            time.sleep(0.02)
        return number

    async with ToolContext(sandbox, tools=[work], workers=workers) as context:
        tools = [context.call("work", number=n) for n in range(6)]
        functions = [context.compute(score, number=n) for n in range(6)]
        outcomes = await asyncio.gather(*tools, *functions)
    assert [outcome.value for outcome in outcomes[:6]] == outcomes[6:] == list(range(6))
    assert inside.most == workers


async def test_a_call_that_was_given_up_keeps_its_worker_until_it_returns(
    sandbox: LiveSandbox,
) -> None:
    begun, go_on, inside = threading.Event(), threading.Event(), Count()

    def hang() -> None:
        with inside:
            begun.set()
            go_on.wait(60)

    def quick() -> int:
        with inside:
            return 1

    async with ToolContext(sandbox, workers=1) as context:
        given_up = asyncio.create_task(context.compute(hang))
        assert await asyncio.to_thread(begun.wait, 60)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        after = asyncio.create_task(context.compute(quick))
        await asyncio.sleep(0.05)
        assert not after.done()
        go_on.set()
        assert await after == 1
    assert inside.most == 1


async def test_two_contexts_have_limits_of_their_own(sandbox: LiveSandbox) -> None:
    meeting = threading.Barrier(2)

    def meet() -> None:
        meeting.wait(30)

    first, second = ToolContext(sandbox, workers=1), ToolContext(sandbox, workers=1)
    await asyncio.gather(first.compute(meet), second.compute(meet))


@tool
def slow_tool() -> str:
    """Block for a second."""
    time.sleep(1.0)
    return "done"


@reward
def slow_reward(signals: Signals) -> float:
    time.sleep(1.0)
    return signals["correct"]


async def by_tool(context: ToolContext) -> None:
    assert (await context.call("slow_tool")).text == "done"


async def by_reward(context: ToolContext) -> None:
    signals = Signals([Signal("correct", 1.0)])
    assert (await context.compute(slow_reward, signals=signals)).value == 1.0


@pytest.mark.parametrize("grade", [by_tool, by_reward])
async def test_a_second_of_synchronous_work_delays_a_running_role_by_less_than_20_ms(
    sandbox: LiveSandbox,
    grade: Callable[[ToolContext], Any],
    longest_wait: Callable[..., Awaitable[float]],
) -> None:
    """The other role ticks every 2 ms, and is no later than the machine makes it anyway."""
    worst: list[float] = []
    for _ in range(5):
        begun, over = asyncio.Event(), asyncio.Event()
        lateness: list[float] = []

        class Tick(Action):
            """Wake every 2 ms, and note by how much too late."""

            async def run(self, history: Sequence[Message]) -> str:
                begun.set()  # noqa: B023 (it ends with this turn of the loop)
                while not over.is_set():  # noqa: B023
                    began = time.perf_counter()
                    await asyncio.sleep(0.002)
                    lateness.append(time.perf_counter() - began - 0.002)  # noqa: B023
                return "over"

        playing = asyncio.create_task(Team([Role(name="Ticker", actions=[Tick])]).run("go"))
        await begun.wait()
        async with ToolContext(sandbox, tools=[slow_tool]) as context:
            await grade(context)
        over.set()
        await playing
        assert len(lateness) > 5
        worst.append(max(lateness))
        if worst[-1] < 0.02 or worst[-1] < min(0.5, 5 * await longest_wait()):
            return
    pytest.fail(f"The other role was kept waiting by {worst} seconds.")
