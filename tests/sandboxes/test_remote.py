"""`Remote` and `rolecraft sandbox-server`: sandboxes of another process, as if they were here."""

from __future__ import annotations

import asyncio
import pickle
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    AllowList,
    LocalProcess,
    SandboxFileError,
    SandboxLimits,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)
from rolecraft.sandboxes._remote_wire import LimitsBody, SpecBody, error_body, error_of
from rolecraft.sandboxes.live import EVERY_WALL
from rolecraft.sandboxes.remote import Remote


@pytest.fixture
async def remote(sandbox_servers: Callable[[str], Any]) -> AsyncIterator[Remote]:
    server = sandbox_servers("local")
    async with Remote(server.url, token=server.token) as remote:
        yield remote


async def test_a_sandbox_of_a_server_is_used_like_one_of_this_machine(
    remote: Remote, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    (base / "sub").mkdir(parents=True)
    (base / "sub" / "a.txt").write_text("of the base\n")
    (base / "link").symlink_to("sub/a.txt")
    spec = SandboxSpec(base=base, files={"b.bin": b"\xff\0"}, env={"COLOUR": "blue"})
    async with await remote.create(spec) as sandbox:
        assert sandbox.spec is spec
        done = await sandbox.run(
            ["sh", "-c", "cat link - c.txt; echo $COLOUR; exit 3"],
            stdin="stdin\n",
            files={"c.txt": "of the call\n"},
        )
        assert (done.exit_code, done.stdout) == (3, "of the base\nstdin\nof the call\nblue\n")
        assert await sandbox.read("b.bin") == b"\xff\0"
        await sandbox.write("bin/tool", "#!/bin/sh\necho it runs", executable=True)
        assert (await sandbox.run(["bin/tool"])).stdout == "it runs\n"
        assert (await sandbox.run(["pwd"], cwd="sub")).stdout.rstrip().endswith("/sub")
    assert not (base / "c.txt").exists()


async def test_a_shell_goes_on_from_line_to_line(remote: Remote) -> None:
    async with await remote.create() as sandbox:
        shell = await sandbox.shell(env={"FIRST": "1"})
        assert (await shell.run("mkdir d && cd d && SECOND=2")).ok
        assert (await shell.run("echo $FIRST $SECOND ${PWD##*/}")).stdout == "1 2 d\n"
        lines = [shell.run(f"echo {number}") for number in range(5)]
        done = await asyncio.gather(*lines)
        assert [each.stdout for each in done] == [f"{number}\n" for number in range(5)]
        assert (await shell.run("sleep 100", seconds=0.3)).timed_out
        assert (await shell.run("echo $SECOND")).stdout == "2\n"
        assert (await shell.run("exit 3")).exit_code == 3
        assert not shell.alive
        with pytest.raises(SandboxLost):
            await shell.run("echo more")


async def test_what_a_shell_runs_can_be_interrupted(remote: Remote) -> None:
    async with await remote.create() as sandbox:
        shell = await sandbox.shell()
        running = asyncio.create_task(shell.run("touch begun; sleep 100", seconds=60))
        await until_there(sandbox, "begun")
        await shell.interrupt()
        assert (await running).exit_code == 130
        assert (await shell.run("echo on")).stdout == "on\n"
        await shell.close()
        assert not shell.alive


async def test_copies_begin_where_the_first_one_is_and_go_their_own_ways(remote: Remote) -> None:
    async with await remote.create(SandboxSpec(files={"a": "1"})) as sandbox:
        shell = await sandbox.shell()
        copy = await sandbox.fork()
        assert not shell.alive, "shells end with a fork"
        await copy.write("a", "2")
        snapshot = await sandbox.snapshot()
        await sandbox.write("a", "3")
        again = await snapshot.create()
        await snapshot.close()
        assert [await each.read("a") for each in (sandbox, copy, again)] == [b"3", b"2", b"1"]
        with pytest.raises(SandboxLost, match="no such snapshot"):
            await snapshot.create()
        await copy.close()
        await again.close()


async def test_files_and_folders_go_in_and_out(remote: Remote, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "x.sh").write_text("#!/bin/sh\necho up")
    (source / "deep" / "er" / "x.sh").chmod(0o755)
    async with await remote.create() as sandbox:
        await sandbox.upload(source, "in")
        await sandbox.upload(source / "deep" / "er" / "x.sh", "one")
        assert (await sandbox.run(["in/deep/er/x.sh"])).stdout == "up\n"
        assert await sandbox.read("one") == b"#!/bin/sh\necho up"
        await sandbox.run(["sh", "-c", "ln -s /etc in/out; ln -s deep in/within; mkfifo in/pipe"])
        await sandbox.download("in", tmp_path / "back")
        await sandbox.download("one", tmp_path / "back" / "one")
        with pytest.raises(SandboxFileError, match="`none`"):
            await sandbox.download("none", tmp_path / "none")
        with pytest.raises(UsageError, match="none"):
            await sandbox.upload(tmp_path / "none", "x")
    back = sorted(
        str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").iterdir()
    )
    assert back == ["deep", "one", "within"]
    assert (tmp_path / "back" / "within" / "er" / "x.sh").stat().st_mode & 0o777 == 0o755


async def test_a_base_is_sent_once_for_a_group_and_again_when_it_has_changed(
    sandbox_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = sandbox_server()
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a").write_bytes(b"1" * 100_000)
    sent: list[str] = []
    async with Remote(server.url, token=server.token) as remote:
        ask = remote._client.ask

        async def counting(method: str, path: str, *args: Any, **named: Any) -> bytes:
            sent.extend([path] if path.startswith("/v1/bases/") else [])
            return await ask(method, path, *args, **named)

        remote._client.ask = counting  # type: ignore[method-assign]
        spec = SandboxSpec(base=tmp_path / "base")
        group = await asyncio.gather(*(remote.create(spec) for _ in range(8)))
        assert len(sent) == 1
        (tmp_path / "base" / "a").write_bytes(b"2" * 100_000)
        other = await remote.create(spec)
        assert len(sent) == 2
        assert (await other.read("a"))[:1] == b"2"
        await group[0].write("a", b"3")
        assert {(await each.read("a"))[:1] for each in group[1:]} == {b"1"}


async def test_errors_come_as_themselves_with_their_parts(remote: Remote) -> None:
    with pytest.raises(SandboxRefused) as refused:
        await remote.create(SandboxSpec(requires=frozenset({"files"})))
    assert refused.value.missing == ("files",)
    async with await remote.create() as sandbox:
        with pytest.raises(SandboxFileError) as missing:
            await sandbox.read("none")
        assert missing.value.path == "none"
        assert missing.value.reason
        await sandbox.write("long", b"x" * 100)
        with pytest.raises(SandboxFileError, match="max_bytes"):
            await sandbox.read("long", max_bytes=99)
        with pytest.raises(UsageError, match="list of words"):
            await sandbox.run("echo hi")
        with pytest.raises(UsageError, match="relative"):
            await sandbox.run(["true"], files={"../x": ""})
        with pytest.raises(UsageError, match="NUL"):
            await (await sandbox.shell()).run("echo \0")
    with pytest.raises(SandboxLost, match="closed"):
        await sandbox.run(["true"])
    await sandbox.close()  # a second time it does nothing


async def test_one_command_in_a_fresh_folder(remote: Remote) -> None:
    done = await remote.run(["sh", "-c", "cat a; cat"], files={"a": "file "}, stdin="stdin")
    assert done.stdout == "file stdin"
    few = SandboxLimits(seconds=0.2)
    assert (await remote.run(["sleep", "60"], limits=few)).timed_out


def test_walls_are_what_the_server_says(sandbox_servers: Callable[[str], Any]) -> None:
    server = sandbox_servers("local")
    remote = Remote(server.url, token=server.token)
    assert remote.walls == LocalProcess().walls


def test_a_copy_in_a_worker_process_is_a_client_of_its_own() -> None:
    remote = Remote("http://127.0.0.1:1", token="secret", wait_seconds=7)
    copy = pickle.loads(pickle.dumps(remote))
    assert copy._arguments == remote._arguments
    assert copy._client.lease != remote._client.lease
    assert "secret" not in repr(remote)


@pytest.mark.parametrize("url", ["127.0.0.1:8100", "ftp://x", "", "http://"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="address of a sandbox server"):
        Remote(url)


async def test_many_clients_at_once(sandbox_server: Callable[..., Any]) -> None:
    server = sandbox_server("--max-sandboxes", 100, "--max-commands", 8)

    async def client(number: int) -> list[str]:
        async with Remote(server.url, token=server.token) as remote:
            sandbox = await remote.create()
            await sandbox.write("me", str(number))
            return [(await sandbox.run(["cat", "me"])).stdout for _ in range(3)]

    seen = await asyncio.gather(*(client(number) for number in range(30)))
    assert seen == [[str(number)] * 3 for number in range(30)]


async def test_a_full_server_says_when_to_come_again_and_the_client_does(
    sandbox_server: Callable[..., Any],
) -> None:
    server = sandbox_server("--max-sandboxes", 1, "--max-commands", 2)
    async with Remote(server.url, token=server.token) as remote:
        first = await remote.create()
        async with httpx.AsyncClient(base_url=server.url, headers=headers(server)) as raw:
            refused = await raw.post("/v1/sandboxes", json={})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "overloaded"
        waiting = asyncio.create_task(remote.create())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await first.close()
        second = await waiting
        begun = time.monotonic()
        runs = [second.run(["sleep", "0.3"]) for _ in range(4)]
        assert all(done.ok for done in await asyncio.gather(*runs))
        assert time.monotonic() - begun > 0.6, "two at a time"
    async with Remote(server.url, token=server.token, wait_seconds=0.2) as hasty:
        kept = await hasty.create()
        with pytest.raises(SandboxError, match=r"busy.*1 sandboxes.*wait_seconds"):
            await hasty.create()
        await kept.close()


async def test_a_cancelled_command_is_ended_on_the_server(remote: Remote) -> None:
    mark = uuid.uuid4().hex
    async with await remote.create() as sandbox:
        run = asyncio.create_task(sandbox.run(["sh", "-c", f"touch begun; sleep 1000; : {mark}"]))
        await until_there(sandbox, "begun")
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        assert not processes(mark)


async def test_a_sandbox_whose_maker_was_cancelled_is_closed(
    sandbox_server: Callable[..., Any],
) -> None:
    server = sandbox_server("--max-sandboxes", 1)
    async with Remote(server.url, token=server.token) as remote:
        await remote._client.learn()
        for wait in (0.0, 0.002, 0.01, 0.03):
            making = asyncio.create_task(remote.create())
            await asyncio.sleep(wait)
            making.cancel()
            await asyncio.wait([making])
            if not making.cancelled():
                await (await making).close()
            await (await remote.create()).close()  # there is a place


def test_every_field_of_a_spec_and_of_limits_crosses_the_wire() -> None:
    assert set(SpecBody.model_fields) == {field.name for field in fields(SandboxSpec)}
    assert set(LimitsBody.model_fields) == {field.name for field in fields(SandboxLimits)}
    spec = SandboxSpec(
        files={"a": "ä", "b": b"\0\xff"},
        env={"A": "1"},
        readable=("/data",),
        image="python:3.12",
        limits=SandboxLimits(seconds=3, disk_bytes=7),
        network=AllowList(("example.org",)),
        ports=(80,),
        ttl_seconds=9,
        requires=EVERY_WALL,
    )
    body = SpecBody.model_validate_json(SpecBody.of(spec, None).model_dump_json())
    again = body.spec(None)
    assert again.files == {"a": "ä".encode(), "b": b"\0\xff"}
    for name in {field.name for field in fields(SandboxSpec)} - {"files"}:
        assert getattr(again, name) == getattr(spec, name), name


@given(path=st.text(), reason=st.text())
def test_an_error_is_the_same_on_both_sides(path: str, reason: str) -> None:
    error = SandboxFileError(path, reason)
    body = error_body(error)
    assert body is not None
    again = error_of(body)
    assert type(again) is SandboxFileError
    assert (str(again), vars(again)) == (str(error), vars(error))


def headers(server: Any, lease: str = "raw") -> dict[str, str]:
    return {"authorization": f"Bearer {server.token}", "rolecraft-lease": lease}


async def until_there(sandbox: Any, path: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            await sandbox.read(path)
            return
        except SandboxFileError:
            assert time.monotonic() < deadline, f"{path} never came"
            await asyncio.sleep(0.02)


def processes(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def test_a_token_as_it_stands_in_a_file_is_taken(
    sandbox_servers: Callable[[str], Any],
) -> None:
    server = sandbox_servers("local")
    async with Remote(server.url, token=f" {server.token}\n") as remote:
        assert (await remote.run(["echo", "hi"])).stdout == "hi\n"


@pytest.mark.parametrize(
    "token", ["", " \n", "a-secret\nanother", "a-secret\0", "a-secret\x7f", "é"]
)
def test_a_token_that_no_request_can_carry_is_refused_and_not_told(token: str) -> None:
    with pytest.raises(UsageError, match="token") as error:
        Remote("http://127.0.0.1:1", token=token)
    assert "secret" not in str(error.value)
