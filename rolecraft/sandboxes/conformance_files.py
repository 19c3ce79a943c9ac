"""Files of live sandboxes, transfer, snapshots and forks. See `conformance_live`."""

# ruff: noqa: ASYNC240 - what these tests do to their own files takes no time

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.sandboxes._conformance import LIVE_LIMITS, LiveConformance, raises, tree
from rolecraft.sandboxes.base import MIB
from rolecraft.sandboxes.live import SandboxFileError, SandboxLost


class FilesConformance(LiveConformance):
    """Reading and writing one file."""

    async def test_what_is_written_is_read_and_seen_by_commands(self) -> None:
        async with self.sandbox(files={"given/a.txt": "given ä\n"}) as sandbox:
            assert await sandbox.read("given/a.txt") == "given ä\n".encode()
            await sandbox.write("new/folder/b", b"\xff\x00\r\n")
            assert await sandbox.read("new/folder/b") == b"\xff\x00\r\n"
            done = await sandbox.run(
                ["sh", "-c", "cat given/a.txt; wc -c < new/folder/b; echo 1 > c"]
            )
            assert done.stdout == "given ä\n4\n"
            assert await sandbox.read(f"{sandbox.folder}/c") == b"1\n"
            await sandbox.write(f"{sandbox.folder}/c", "other")
            assert await sandbox.read("./c") == b"other"
            await sandbox.write("empty", "")
            assert await sandbox.read("empty") == b""

    async def test_names_may_be_odd(self) -> None:
        async with self.sandbox() as sandbox:
            for name in ("a b", "ä✓", "-n", "new\nline", "'\"$x`*?", "…/.hidden", "a..b"):
                await sandbox.write(name, name)
                assert await sandbox.read(name) == name.encode()
                assert (await sandbox.run(["cat", "--", name])).stdout == name

    async def test_a_program_that_is_written_can_be_run(self) -> None:
        async with self.sandbox() as sandbox:
            await sandbox.write("bin/say", "#!/bin/sh\necho said", executable=True)
            assert (await sandbox.run(["./bin/say"])).stdout == "said\n"
            await sandbox.write("plain", "#!/bin/sh\necho said")
            assert (await sandbox.run(["sh", "-c", "./plain"])).exit_code == 126

    async def test_what_cannot_be_read_is_an_error_that_says_why(self) -> None:
        async with self.sandbox(files={"file": "x" * 1000, "folder/x": ""}) as sandbox:
            await sandbox.run(["sh", "-c", "ln -s nowhere dangling; ln -s ring ring; mkfifo pipe"])
            for path in ("missing", "folder", "", "file/below", "dangling", "ring", "a\0b", "pipe"):
                with raises(SandboxFileError):
                    await asyncio.wait_for(sandbox.read(path), 10)
            with raises(SandboxFileError, "missing"):
                await sandbox.read("missing")
            with raises(SandboxFileError, "1000"):
                await sandbox.read("file", max_bytes=999)
            assert len(await sandbox.read("file", max_bytes=1000)) == 1000
            for most in (0, -1, -2):
                with raises(UsageError, "max_bytes"):
                    await sandbox.read("file", max_bytes=most)

    async def test_what_cannot_be_written_is_an_error(self) -> None:
        async with self.sandbox(files={"file": "kept", "folder/x": ""}) as sandbox:
            await sandbox.run(["sh", "-c", "mkfifo pipe; ln -s ring ring"])
            for path in ("folder", "", "file/below", "a\0b", "pipe", "ring", "x" * 300):
                with raises(SandboxFileError):
                    await asyncio.wait_for(sandbox.write(path, "new"), 10)
            assert await sandbox.read("file") == b"kept"

    async def test_paths_and_links_do_not_lead_to_the_host(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            secret = Path(folder, "secret")
            secret.write_text("a secret of this machine")
            up = "../" * 20
            async with self.sandbox() as sandbox:
                links = [f"ln -s '{secret}' link", f"ln -s '{folder}' above", f"ln -s {up} up"]
                await sandbox.run(["sh", "-c", "; ".join(links)])
                paths = (str(secret), f"{up}{secret}", "link", "above/secret", f"up{secret}")
                for path in paths:
                    with raises(SandboxFileError):
                        await sandbox.read(path)
                for path in (*paths, f"{folder}/new", "above/new"):
                    try:
                        await sandbox.write(path, "changed")
                    except SandboxFileError:
                        continue  # or it has written a file of its own that has this name
                assert tree(Path(folder)) == {"secret": b"a secret of this machine"}

    async def test_files_of_a_run_are_written_first(self) -> None:
        async with self.sandbox(files={"a": "old"}) as sandbox:
            done = await sandbox.run(["cat", "a", "d/b"], files={"a": "new", "d/b": b"\xc3\xa4"})
            assert done.stdout == "newä"
            assert await sandbox.read("a") == b"new"
            for name in ("/etc/x", "../x", "a/../../x", ""):
                with raises(UsageError, "relative"):
                    await sandbox.run(["true"], files={name: ""})


class TransferConformance(LiveConformance):
    """Upload and download."""

    async def test_a_folder_goes_in_and_comes_out_as_it_was(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            (source / "deep/er").mkdir(parents=True)
            (source / "empty").mkdir()
            (source / "deep/er/ä b").write_bytes(bytes(range(256)) * 5000)
            (source / "run").write_text("#!/bin/sh\necho ran")
            (source / "run").chmod(0o755)
            (source / "link").symlink_to("deep/er")
            (source / "none").write_bytes(b"")
            async with self.sandbox() as sandbox:
                await sandbox.upload(source, "in/side")
                look = "./run; readlink link; ls -A empty; cat link/* | wc -c; ls | wc -l"
                done = await sandbox.run(["sh", "-c", look], cwd="in/side")
                assert done.stdout == "ran\ndeep/er\n1280000\n5\n"
                await sandbox.download("in/side", target)
            assert tree(target) == tree(source)
            assert os.access(target / "run", os.X_OK)

    async def test_one_file_goes_in_and_comes_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "source")
            source.write_bytes(b"x" * 3_000_001)
            async with self.sandbox() as sandbox:
                await sandbox.upload(str(source), "new/name")
                assert (await sandbox.run(["wc", "-c", "new/name"])).stdout.split()[0] == "3000001"
                await sandbox.download("new/name", Path(folder, "some/where"))
            assert Path(folder, "some/where").read_bytes() == source.read_bytes()

    async def test_an_upload_goes_over_what_is_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "new").write_text("new")
            Path(folder, "same").write_text("changed")
            async with self.sandbox(files={"d/old": "old", "d/same": "same"}) as sandbox:
                await sandbox.upload(folder, "d")
                done = await sandbox.run(["sh", "-c", "cat d/new d/old d/same"])
                assert done.stdout == "newoldchanged"

    async def test_what_is_missing_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with self.sandbox() as sandbox:
                with raises(UsageError, "missing"):
                    await sandbox.upload(Path(folder, "missing"), "x")
                for path in ("missing", "a\0b"):
                    with raises(SandboxFileError):
                        await sandbox.download(path, Path(folder, "x"))
            assert not os.listdir(folder)

    async def test_a_download_has_no_more_than_max_bytes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            limits = replace(LIVE_LIMITS, disk_bytes=MIB)
            files = {"d/a": "x" * 6000, "d/e/b": "x" * 6000}
            async with self.sandbox(files=files, limits=limits) as sandbox:
                with raises(SandboxFileError, "11999"):
                    await sandbox.download("d", Path(folder, "little"), max_bytes=11_999)
                await sandbox.download("d", Path(folder, "all"), max_bytes=12_000)
                assert Path(folder, "all/e/b").stat().st_size == 6000
                for most in (0, -1):
                    with raises(UsageError, "max_bytes"):
                        await sandbox.download("d", Path(folder, "none"), max_bytes=most)
                # Holes take no room in there; by default four times the limit of disk come out.
                await sandbox.run(["truncate", "-s", "3M", "d/1", "d/2"])
                with raises(SandboxFileError, str(4 * MIB)):
                    await sandbox.download("d", Path(folder, "holes"))
            assert not Path(folder, "none").exists()

    async def test_links_that_lead_out_and_devices_do_not_come_out(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            secret, target = Path(folder, "secret"), Path(folder, "target")
            secret.write_text("a secret of this machine")
            make = (
                "mkdir -p d/e; echo in > d/in; ln -s in d/good; ln -s ../in d/e/up; "
                f"ln -s '{secret}' d/absolute; ln -s ../../x d/e/out; ln -s e/../../.. d/sly; "
                f"ln -s '{folder}' d/folder; mkfifo d/pipe; ln d/in d/hard; "
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d/socket\")' || :"
            )
            async with self.sandbox() as sandbox:
                assert (await sandbox.run(["sh", "-c", make])).ok
                await asyncio.wait_for(sandbox.download("d", target), 20)
            assert tree(target) == {
                "in": b"in\n",
                "hard": b"in\n",
                "good": "in",
                "e": None,
                "e/up": "../in",
            }

    async def test_a_link_in_the_target_is_not_followed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "outside").mkdir()
            (Path(folder) / "target").mkdir()
            (Path(folder) / "target/d").symlink_to("../outside")
            async with self.sandbox(files={"x/d/f": "new", "x/g": "new"}) as sandbox:
                await sandbox.download("x", Path(folder, "target"))
            assert not os.listdir(Path(folder, "outside"))
            assert Path(folder, "target/g").read_text() == "new"


class ForkConformance(LiveConformance):
    """Copies of a work folder, and the folder that it began with."""

    async def test_the_base_is_there_and_never_changed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder)
            base.chmod(0o755)
            (base / "d").mkdir()
            (base / "d/a").write_text("base a")
            (base / "b").write_text("base b")
            (base / "run").write_text("#!/bin/sh\necho ran")
            (base / "run").chmod(0o755)
            (base / "link").symlink_to("d/a")
            before = tree(base)
            change = (
                "./run; cat link b; echo x > d/a; rm b; mv run walk; chmod 700 d; "
                "ln -sf walk link; mkdir d/new; echo y > d/new/f; rm -r d/new; truncate -s 0 walk"
            )
            async with self.sandbox(base=base, files={"b": "given b"}) as first:
                async with self.sandbox(base=folder) as second:
                    done = await first.run(["sh", "-c", change])
                    assert (done.stdout, done.stderr) == ("ran\nbase agiven b", "")
                    assert (await second.run(["sh", "-c", "./run; cat d/a b"])).stdout == (
                        "ran\nbase abase b"
                    )
                assert await first.read("d/a") == b"x\n"
            assert tree(base) == before

    async def test_a_fork_begins_as_it_is_now_and_goes_its_own_way(self) -> None:
        async with self.sandbox(files={"a": "1", "gone": "", "d/x": "1"}, env={"V": "v"}) as first:
            await first.run(
                ["sh", "-c", "echo 2 > a; rm gone; rm -r d; mkdir d; ln -s a l; echo b > b"]
            )
            fork = await first.fork()
            try:
                look = ["sh", "-c", "cat a l b; ls -A . d; echo $V"]
                wanted = "2\n2\nb\n.:\na\nb\nd\nl\n\nd:\nv\n"
                assert (await fork.run(look)).stdout == wanted
                assert (await first.run(look)).stdout == wanted
                await first.run(["sh", "-c", "echo first > a; rm b; echo x > d/first"])
                await fork.run(["sh", "-c", "echo fork > a; echo x > d/fork"])
                assert (await first.run(["sh", "-c", "cat a; ls . d"])).stdout == (
                    "first\n.:\na\nd\nl\n\nd:\nfirst\n"
                )
                assert (await fork.run(["sh", "-c", "cat a; ls . d"])).stdout == (
                    "fork\n.:\na\nb\nd\nl\n\nd:\nfork\n"
                )
                second = await fork.fork()
                await fork.close()
                assert await second.read("a") == b"fork\n"
                await second.close()
            finally:
                await fork.close()

    async def test_any_number_begins_with_one_snapshot(self) -> None:
        async with self.sandbox(files={"a": "1"}) as first:
            await first.write("a", "2")
            snapshot = await first.snapshot()
            await first.write("a", "3")
            copies = await asyncio.gather(*(snapshot.create() for _ in range(4)))
            for number, copy in enumerate(copies):
                assert await copy.read("a") == b"2"
                await copy.write("a", f"copy {number}")
            await first.close()
            late = await snapshot.create()
            assert await late.read("a") == b"2", "it outlives the sandbox, and no copy changes it"
            await snapshot.close()
            await snapshot.close()
            with raises(SandboxLost):
                await snapshot.create()
            for number, copy in enumerate(copies):
                assert await copy.read("a") == f"copy {number}".encode()
            await asyncio.gather(late.close(), *(copy.close() for copy in copies))

    async def test_a_snapshot_ends_shells_and_copies_no_process(self) -> None:
        mark = uuid.uuid4().hex
        async with self.sandbox() as first:
            shell = await first.shell()
            await shell.run(f"sh -c 'sleep 1000; : {mark}' &")
            snapshot = await first.snapshot()
            assert not shell.alive
            with raises(SandboxLost):
                await shell.run("true")
            assert (await (await first.shell()).run("echo on")).stdout == "on\n"
            copy = await snapshot.create()
            look = f"cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '[s]leep 1000; : {mark}'"
            assert (await copy.run(["sh", "-c", look])).stdout == "0\n"
            await copy.close()
            await snapshot.close()
            await self.gone(mark)
