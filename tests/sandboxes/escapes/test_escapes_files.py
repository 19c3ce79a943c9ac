"""Attacks on the host's files. One test an attack; its story is in the docstring."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rolecraft.sandboxes import SandboxFileError

SECRET = "a secret of this machine"

ROOTS_HOME = Path("/root")


def unharmed(outside: Path) -> None:
    assert sorted(os.listdir(outside)) == ["secret"]
    assert (outside / "secret").read_text() == SECRET
    assert (outside / "secret").stat().st_mode & 0o7777 == 0o666
    assert outside.stat().st_mode & 0o7777 == 0o777


async def test_reading_outside(attacker, outside) -> None:
    """The plainest: open a file that everybody may read, by its path and by way of `..`."""
    attacker.needs("files")
    path = f"{outside}/secret"
    done = await attacker.sh(
        f"cat {path}; cat ./../../../../../../..{path}; ls {outside}; "
        f"cat /etc/passwd /etc/hostname {ROOTS_HOME}/.bashrc; "
        f"cp {path} . && cat secret; head {path}"
    )
    assert SECRET not in done.stdout + done.stderr
    assert "root:" not in done.stdout + done.stderr


async def test_writing_outside(attacker, outside) -> None:
    """Create, change, cut, move and delete where everybody may."""
    attacker.needs("files")
    code = f"""
import os
folder = {str(outside)!r}; secret = folder + "/secret"
for attempt in (lambda: open(secret, "w").write("x"), lambda: open(secret, "a").write("x"),
                lambda: os.truncate(secret, 0), lambda: os.unlink(secret),
                lambda: os.rename(secret, "mine"), lambda: os.rename("attack.py", secret),
                lambda: open(folder + "/new", "w"), lambda: os.mkdir(folder + "/new"),
                lambda: os.symlink("x", folder + "/new"), lambda: os.mkfifo(folder + "/new"),
                lambda: os.link("attack.py", folder + "/new"), lambda: os.rmdir(folder)):
    try: attempt()
    except OSError: continue
    print("it worked")
"""
    assert (await attacker.python(code)).stdout == ""
    unharmed(outside)


async def test_changing_modes_owners_and_times_outside(attacker, outside) -> None:
    """Landlock does not look at these: only that the user owns nothing keeps them as they are."""
    attacker.needs("files")
    code = f"""
import os
for path in ({str(outside)!r}, {str(outside / "secret")!r}):
    for attempt in (lambda: os.chmod(path, 0), lambda: os.chown(path, os.getuid(), os.getgid()),
                    lambda: os.utime(path, (1, 1)), lambda: os.setxattr(path, "user.x", b"x")):
        try: attempt()
        except OSError: continue
        print("it worked", path)
"""
    await attacker.python(code)
    unharmed(outside)
    for path in (outside, outside / "secret"):
        assert path.stat().st_uid == os.geteuid()
        assert path.stat().st_mtime > 1
        assert "user.x" not in os.listxattr(path)


async def test_a_symbolic_link_in_the_work_folder(attacker, outside) -> None:
    """What the sandbox itself follows, and what Rolecraft would follow for whoever reads a file."""
    attacker.needs("files")
    make = f"ln -s {outside}/secret link; ln -s {outside} folder; ln -s /proc/self/root root"
    read = f"cat link folder/secret root{outside}/secret; echo x > link; echo x > folder/new"
    done = await attacker.sh(f"{make}; {read}")
    assert SECRET not in done.stdout + done.stderr
    unharmed(outside)


async def test_a_link_that_the_host_is_made_to_follow(attacker, outside) -> None:
    """A reward function reads `answer.txt` with Rolecraft's rights: root's, perhaps."""
    attacker.needs("files")
    sandbox = await attacker.begin()
    done = await sandbox.run(
        ["sh", "-c", f"ln -s {outside}/secret answer.txt; ln -s {outside} out; ln -s / root"]
    )
    assert done.ok
    for path in ("answer.txt", "out/secret", f"root{outside}/secret", f"{outside}/secret"):
        with pytest.raises(SandboxFileError):
            await sandbox.read(path)
        with pytest.raises(SandboxFileError):
            await sandbox.write(path, "x")
    with pytest.raises(SandboxFileError):
        await sandbox.write("out/new", "x")
    unharmed(outside)


async def test_links_in_what_is_brought_out(attacker, outside, tmp_path) -> None:
    """`download` writes on the host; a link that was packed before its file leads elsewhere."""
    attacker.needs("files")
    sandbox = await attacker.begin()
    make = f"mkdir d; ln -s {outside} d/sub; ln -s {outside}/secret d/leak; ln -s ../.. d/up"
    make += "; echo x > d/f"
    assert (await sandbox.run(["sh", "-c", make])).ok
    await sandbox.download("d", tmp_path / "d")
    found = await asyncio.to_thread(
        lambda: {path.name: path.is_symlink() for path in (tmp_path / "d").iterdir()}
    )
    assert found == {"f": False}
    unharmed(outside)


async def test_a_race_between_a_check_and_its_use(attacker, outside) -> None:
    """A folder becomes a link, and a folder again, while Rolecraft reads and writes below it."""
    attacker.needs("files")
    sandbox = await attacker.begin()
    swap = f"""
import os
os.mkdir("real"); open("real/secret", "w").write("mine")
os.symlink({str(outside)!r}, "link"); os.rename("real", "place")
while True:
    os.rename("place", "real"); os.rename("link", "place")
    os.rename("place", "link"); os.rename("real", "place")
"""
    shell = await sandbox.shell()
    await sandbox.write("swap.py", swap)
    await shell.run("python3 -I swap.py & sleep 0.2")
    for number in range(300):
        try:
            assert await sandbox.read("place/secret") in (b"mine", b"x")
            await sandbox.write("place/secret" if number % 2 else f"place/new{number}", "x")
        except SandboxFileError:
            continue
    unharmed(outside)


async def test_a_hard_link_to_a_file_of_the_host(attacker, outside) -> None:
    """Another name for the same file, in a folder that may be written."""
    attacker.needs("files")
    code = f"""
import os
for follow in (True, False):
    try: os.link({str(outside / "secret")!r}, "hard", follow_symlinks=follow)
    except OSError: continue
    print(open("hard").read()); open("hard", "w").write("x")
"""
    done = await attacker.python(code)
    assert SECRET not in done.stdout
    unharmed(outside)


async def test_the_roots_of_other_processes(attacker, outside, victim) -> None:
    """/proc/PID/root and cwd lead to the file system as another process has it."""
    attacker.needs("files")
    pids = f"1 2 {os.getpid()} {victim.pid} self $PPID"
    done = await attacker.sh(
        f"for pid in {pids}; do cat /proc/$pid/root{outside}/secret /proc/$pid/map_files/*; "
        f"cat /proc/$pid/cwd/../..{outside}/secret /proc/$pid/task/$pid/root{outside}/secret; done"
    )
    assert SECRET not in done.stdout


async def test_a_file_by_its_number(attacker, outside) -> None:
    """`open_by_handle_at` needs no path: what "shocker" did to Docker in 2014."""
    attacker.needs("files")
    code = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
for place in (".", "/", "/usr", "/tmp", "/proc"):
    mount = os.open(place, os.O_PATH)
    for inode in (2, 128, 256):
        handle = ctypes.create_string_buffer(struct.pack("=IiQ", 8, 1, inode))
        fd = libc.open_by_handle_at(mount, handle, 0)
        if fd >= 0: print("it worked", os.listdir(fd))
"""
    assert "it worked" not in (await attacker.python(code)).stdout


async def test_a_second_chroot(attacker, outside) -> None:
    """Keep a folder open, change the root below it, and walk up: the oldest escape there is."""
    attacker.needs("files")
    code = f"""
import os
os.mkdir("below"); above = os.open("/", os.O_RDONLY | os.O_DIRECTORY) if os.access("/", 4) else 0
try: os.chroot("below")
except OSError as error: print(error); raise SystemExit
for _ in range(64): os.chdir("..")
os.chroot("."); print(open({str(outside / "secret")!r}).read())
"""
    assert SECRET not in (await attacker.python(code)).stdout


async def test_mounts(attacker, outside) -> None:
    """Mount the host's disk, /proc or a bind of a folder; unmount or remount what is in the way."""
    attacker.needs("files")
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("m")
for words in ((b"{_disk()}", b"m", b"ext4", 0, None), (b"proc", b"m", b"proc", 0, None),
              (b"tmpfs", b"m", b"tmpfs", 0, None), (b"/usr", b"m", None, 4096, None),
              (b"none", b"/usr", None, 32 | 4096, None), (b"none", b"/", None, 32, None)):
    if libc.mount(*words) == 0: print("mounted", words)
for path in (b"/usr", b"/tmp", b"/proc", b"/dev"):
    if libc.umount2(path, 2) == 0: print("unmounted", path)
for number in (428, 429, 430, 432, 442):
    if libc.syscall(number, -100, b"/", 1, 0, 0, 0) >= 0: print("call", number)
"""
    assert (await attacker.python(code)).stdout == ""


def _disk() -> str:
    lines = Path("/proc/mounts").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.split()[1] == "/"), "/dev/sda1")


async def test_switches_of_the_kernel(attacker) -> None:
    """Files that make the kernel run a program, crash or forget its limits, if they are written."""
    attacker.needs("files")
    paths = [
        *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger"),
        *("/sys/kernel/uevent_helper", "/sys/power/state", "/proc/sys/vm/overcommit_memory"),
        *("/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent"),
        *("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs"),
        *("/proc/sys/user/max_user_namespaces", "/proc/1/oom_score_adj", "/proc/acpi/wakeup"),
        "/proc/sys/fs/binfmt_misc/register",
    ]
    before = {path: _content(path) for path in paths}
    code = f"""
import os
for path in {paths}:
    try:
        fd = os.open(path, os.O_WRONLY)
        print("open", path)
        os.write(fd, b"1")
    except OSError: pass
"""
    done = await attacker.python(code)
    opened = {line.split()[1] for line in done.stdout.splitlines()}
    assert opened <= {"/proc/1/oom_score_adj"}, "that is the sandbox's own first process"
    assert {path: _content(path) for path in paths} == before


def _content(path: str) -> bytes | None:
    if path.endswith(("procs", "oom_score_adj")):
        return None  # these change by themselves
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


async def test_secrets_in_proc_and_sys(attacker, victim) -> None:
    """Kernel memory and addresses, the log, keys, other processes' environments."""
    attacker.needs("files")
    done = await attacker.sh(
        f"for f in /proc/kcore /proc/kmsg /proc/keys /dev/kmsg /dev/mem /proc/{victim.pid}/environ "
        f"/proc/{os.getpid()}/environ /sys/kernel/debug /proc/sched_debug /proc/1/environ; do "
        "head -c 100 $f 2>/dev/null && echo read $f; done; grep -v ^0000 /proc/kallsyms | head -1"
    )
    assert "secret" not in done.stdout
    read = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("read ")}
    assert read <= {"/proc/keys", "/proc/1/environ"}, "its own first process, and its own keys"


async def test_devices(attacker) -> None:
    """Disks, memory and terminals of the host, where they are and newly made."""
    attacker.needs("files")
    code = """
import glob, os, stat
for path in glob.glob("/dev/*") + ["/dev/vda", "/dev/sda", "/dev/mem", "/dev/kvm", "/dev/fuse",
                                   "/dev/loop-control", "/dev/net/tun", "/dev/tty", "/dev/tty1"]:
    for flags in (os.O_RDONLY, os.O_RDWR):
        try: os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError: continue
        if not stat.S_ISDIR(os.stat(path).st_mode): print(os.path.basename(path))
for major, minor, kind in ((8, 0, stat.S_IFBLK), (254, 0, stat.S_IFBLK), (1, 1, stat.S_IFCHR)):
    try:
        os.mknod("node", 0o666 | kind, os.makedev(major, minor)); print("made", major)
        os.open("node", os.O_RDONLY); print("opened", major)
    except OSError: pass
"""
    found = set((await attacker.python(code)).stdout.split())
    assert found <= {*("null", "zero", "full", "random", "urandom", "ptmx"), *("stdin", "stdout"),
                     "stderr"}  # fmt: skip


async def test_the_program_that_runs_it(attacker) -> None:
    """Write to the file of a running program, as CVE-2019-5736 did to runc, or to the system's."""
    attacker.needs("files")
    code = """
import os, sys
for path in ("/proc/self/exe", "/proc/1/exe", sys.executable, "/usr/bin/env", os.__file__):
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC):
        try: os.open(path, flags)
        except OSError: continue
        print("opened", path)
fd = os.open("/proc/self/exe", os.O_PATH)
try: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY); print("opened by number")
except OSError: pass
"""
    assert (await attacker.python(code)).stdout == ""


async def test_programs_with_more_rights(attacker, outside) -> None:
    """Set-user-id programs of the system, and one that the sandbox makes for others to run."""
    attacker.needs("files")
    done = await attacker.sh(
        "grep NoNewPrivs /proc/self/status; "
        "for p in su sudo mount passwd newgrp pkexec; do $p -c id root </dev/null; done 2>&1; "
        "cp /bin/sh shell && chmod 6755 shell && ./shell -p -c 'id -u; id -ru'"
    )
    assert "uid=0" not in done.stdout
    assert "0" not in done.stdout.split("\n")


async def test_a_folder_that_cannot_be_deleted(attacker, until) -> None:
    """No rights on it, names that are no text, deeper than a program can call itself."""
    attacker.needs("survivors")
    code = r"""
import os
os.mkdir("locked"); open("locked/file", "w").close(); os.mkdir("locked/in"); os.chmod("locked", 0)
open(b"\xff\n\x1b[2J", "w").close()
os.mkdir("deep"); os.chdir("deep")
for _ in range(3000): os.mkdir("d" * 50); os.chdir("d" * 50)
print("made")
"""
    sandbox = await attacker.begin()
    await sandbox.write("attack.py", code)
    done = await sandbox.run(["python3", "-I", "attack.py"])
    assert done.stdout == "made\n", done.stderr
    folder = Path(sandbox.folder)
    await attacker.end()
    assert not await asyncio.to_thread(folder.exists)
