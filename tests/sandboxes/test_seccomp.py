"""The filter refuses what it says it refuses, in real processes, and programs work under it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from rolecraft.sandboxes import _keeper_calls, _seccomp
from rolecraft.sandboxes._seccomp import ARCHITECTURES, NUMBERS, Rule, Sockets, filter_bytes, rules

MACHINE = platform.machine()
pytestmark = pytest.mark.skipif(MACHINE not in ARCHITECTURES, reason="no table for this machine")


def under(program: bytes, act: Callable[[], int]) -> int:
    """What `act` returns in a child under the filter (as its exit code), or minus its signal."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            _keeper_calls.gain_no_rights()
            _keeper_calls.filter_calls(program)
            code = act() or 0
        except OSError as error:
            code = error.errno or 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def call(name: str, *arguments: int) -> Callable[[], int]:
    """The system call by its number; gives errno, 0 for success."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = NUMBERS[name][list(ARCHITECTURES).index(MACHINE)]

    def make() -> int:
        words = map(ctypes.c_long, (*arguments, *[0] * (6 - len(arguments))))
        return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *words) == -1 else 0

    return make


STRICTEST = filter_bytes(rules(sockets="none", namespaces=False))
ALWAYS = sorted(rule.call for rule in rules(namespaces=False) if not rule.checks)


@pytest.mark.parametrize("name", ALWAYS)
def test_a_refused_call_fails_whatever_its_arguments(name: str) -> None:
    if NUMBERS[name][list(ARCHITECTURES).index(MACHINE)] < 0:
        pytest.skip("this machine has no such call")
    expected = _seccomp.ERRORS.get(name, errno.EPERM)
    program = filter_bytes() if name not in _seccomp.WITHOUT_NAMESPACES else STRICTEST
    assert under(program, call(name)) == expected
    assert under(program, call(name, -1, -1, -1, -1, -1, -1)) == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("clone", (_seccomp.CLONE_NEWUSER | 17,)),
        ("clone", (0x7E020000 | 17,)),  # every namespace at once
        ("unshare", (_seccomp.CLONE_NEWUSER,)),
        ("personality", (0x0040000,)),  # addresses that are not random
        ("ioctl", (0, _seccomp.TIOCSTI, 0)),
        ("ioctl", (0, _seccomp.TIOCSTI | 1 << 32, 0)),  # the kernel drops the upper half, too
        ("ioctl", (0, _seccomp.TIOCLINUX, 0)),
        ("socket", (_seccomp.NETLINK, 3, 12)),  # the firewall's netlink
    ],
)
def test_a_call_is_refused_by_its_arguments(name: str, arguments: tuple[int, ...]) -> None:
    assert under(filter_bytes(), call(name, *arguments)) == errno.EPERM


@pytest.mark.parametrize("family", [3, 9, 15, 17, 29, 30, 31, 38, 40, 44])
def test_families_of_sockets_that_nobody_needs_do_not_exist(family: int) -> None:
    """AX.25, X.25, keys, packets, CAN, TIPC, Bluetooth, the kernel's ciphers, VM sockets, XDP."""
    assert under(filter_bytes(), call("socket", family, 1, 0)) == errno.EAFNOSUPPORT


ASKED = {"unix": (1, 1, 0), "inet": (2, 1, 0), "inet6": (10, 2, 0), "route": (16, 3, 0)}


@pytest.mark.parametrize(
    ("sockets", "open_"),
    [("all", set(ASKED)), ("internet", {"inet", "inet6", "route"}), ("none", set())],
)
def test_which_sockets_can_be_opened(sockets: Sockets, open_: set[str]) -> None:
    program = filter_bytes(rules(sockets=sockets))
    # Whether the machine has IPv6 is another matter: what counts is that the filter lets it pass.
    plain = {name: under(filter_bytes([]), call("socket", *asked)) for name, asked in ASKED.items()}
    seen = {name: under(program, call("socket", *asked)) for name, asked in ASKED.items()}
    assert {name for name in ASKED if seen[name] == plain[name]} == open_
    assert all(
        seen[name] in (errno.EPERM, errno.EAFNOSUPPORT) for name in ASKED if name not in open_
    )


def test_without_sockets_connected_pairs_are_left_and_reach_nobody() -> None:
    program, close = filter_bytes(rules(sockets="none")), 0o2000000  # SOCK_CLOEXEC

    def pair(kind: int) -> int:
        return under(program, lambda: bool(socket.socketpair(socket.AF_UNIX, kind)) - 1)

    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM | close):
        assert pair(kind) == 0
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | close):
        assert pair(kind) == errno.EPERM, "its datagrams could be sent to any server's path"


def test_limits_and_priorities_of_other_processes_can_be_refused() -> None:
    program, parent = filter_bytes(rules(namespaces=False)), os.getpid()
    for name, arguments in [
        ("prlimit64", (parent, 0)),
        ("sched_setaffinity", (parent, 0)),
        ("sched_setscheduler", (parent, 0)),
        ("sched_setparam", (parent, 0)),
        ("sched_setattr", (parent, 0)),
        ("setpriority", (0, parent, 19)),
        ("setpriority", (2, 0, 19)),  # every process of this user
        ("ioprio_set", (1, parent, 0)),
        ("ioprio_set", (3, 0, 0)),
    ]:
        assert under(program, call(name, *arguments)) == errno.EPERM, (name, arguments)
    assert under(program, call("prlimit64", 0, 0)) == 0
    assert under(program, call("setpriority", 0, 0, 5)) == 0
    assert under(program, lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))) == 0
    assert under(filter_bytes(), call("prlimit64", parent, 0)) == 0, "only if it is asked for"


def test_ordinary_calls_are_made_as_without_the_filter() -> None:
    assert under(filter_bytes(), call("personality", 0xFFFFFFFF)) == 0
    assert under(filter_bytes(), call("ioctl", 0, 0x541B, 0)) != errno.EPERM  # FIONREAD
    assert under(filter_bytes(), lambda: os.waitpid(os.fork() or os._exit(0), 0)[1]) == 0


def test_calls_that_are_newer_than_the_list_do_not_exist() -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def newer() -> int:
        libc.syscall(ctypes.c_long(_seccomp.NEWEST + 1), *[ctypes.c_long(0)] * 6)
        return ctypes.get_errno()

    assert under(filter_bytes(), newer) == errno.ENOSYS


@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is x86_64's")
def test_x32_calls_do_not_exist() -> None:
    """The same calls under other numbers, which a filter that forgets them lets through."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace() -> int:
        libc.syscall(ctypes.c_long(0x40000000 | 521), *[ctypes.c_long(0)] * 6)
        return ctypes.get_errno()

    assert under(filter_bytes(), ptrace) == errno.ENOSYS


@pytest.mark.skipif(MACHINE != "x86_64", reason="the example is for x86_64")
def test_the_calls_of_another_architecture_kill() -> None:
    """`int 0x80` makes 32-bit calls from a 64-bit program: 20 is getpid there, here writev."""
    import mmap

    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    getpid = ctypes.CFUNCTYPE(ctypes.c_int)(address)
    assert under(filter_bytes(), lambda: getpid() and 0) == -31  # SIGSYS


def test_a_filter_for_every_machine_is_a_program_whose_jumps_end_in_it() -> None:
    for machine in ARCHITECTURES:
        for sockets in get_args(Sockets):
            program = filter_bytes(rules(sockets=sockets, namespaces=False), machine=machine)
            code = list(struct.iter_unpack("=HBBI", program))
            assert len(code) < 4096
            for at, (operation, yes, no, value) in enumerate(code):
                if operation in (_seccomp.IF_EQUAL, _seccomp.IF_AT_LEAST):
                    assert at + 1 + max(yes, no) < len(code)
                if operation == _seccomp.JUMP:
                    assert at + 1 + value < len(code)
            assert code[-1] == (_seccomp.RETURN, 0, 0, _seccomp.ALLOW)


def test_numbers_are_those_of_the_kernels_headers(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    column = list(ARCHITECTURES).index(MACHINE)
    lines = [
        f"#if defined(__NR_{name}) && __NR_{name} != {numbers[column]}\n#error {name}\n#endif"
        for name, numbers in NUMBERS.items()
    ]
    source = tmp_path / "numbers.c"
    source.write_text("#include <sys/syscall.h>\n" + "\n".join(lines) + "\nint x;\n")
    done = subprocess.run(
        [compiler, "-c", "-o", str(tmp_path / "x.o"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_unknown_machine_is_an_error() -> None:
    with pytest.raises(KeyError, match="riscv64"):
        filter_bytes(machine="riscv64")


def test_a_rule_of_two_checks_needs_both() -> None:
    both = Rule("socket", 13, (_seccomp.Check(0, (1, 2)), _seccomp.Check(1, (2,))))
    program = filter_bytes([both])
    assert under(program, call("socket", 1, 2, 0)) == 13
    assert under(program, call("socket", 2, 2, 0)) == 13
    assert under(program, call("socket", 1, 1, 0)) == 0


LAUNCH = f"""
import os, sys
sys.path.append({str(Path(_seccomp.__file__).parent)!r})
import _keeper_calls, _seccomp
program = _seccomp.filter_bytes(_seccomp.rules(sockets="none", namespaces=False))
_keeper_calls.gain_no_rights()
_keeper_calls.filter_calls(program)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A program under the strictest filter, set by a Python without site packages."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCH, *command],
        capture_output=True, text=True, cwd=cwd, timeout=120, check=False,
    )  # fmt: skip


def test_python_works_with_processes_and_threads(tmp_path: Path) -> None:
    code = """
import asyncio, concurrent.futures, multiprocessing, subprocess, threading
def square(x): return x * x
async def main():
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    print((await child.communicate())[0])
if __name__ == "__main__":
    asyncio.run(main())
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, [1, 2, 3]))
"""
    (tmp_path / "main.py").write_text(code)
    done = run(sys.executable, "main.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("b'child\\n'\nthread\n[1, 4, 9]\n", "")


def test_bash_works_with_pipes_and_substitution(tmp_path: Path) -> None:
    line = "cat <(echo one) <(echo two | rev) & wait; (exit 3); echo $?; ulimit -n"
    done = run("bash", "-c", line, cwd=tmp_path)
    assert done.stdout.splitlines()[:3] == ["one", "owt", "3"], done.stderr


def test_bwrap_takes_it(tmp_path: Path, needs_program) -> None:
    """And then `unshare` is refused by the filter, not by a limit of namespaces."""
    needs_program("bwrap", package="bubblewrap")
    (tmp_path / "filter").write_bytes(filter_bytes())
    with open(tmp_path / "filter", "rb") as file:
        done = subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc",
             "--seccomp", str(file.fileno()),
             "sh", "-c", "grep Seccomp: /proc/self/status; unshare -U true"],
            pass_fds=[file.fileno()], capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.stdout.split() == ["Seccomp:", "2"]
    assert "Operation not permitted" in done.stderr


def test_git_works(tmp_path: Path) -> None:
    line = (
        "git init -q . && echo a > a && git add a && "
        "git -c user.name=x -c user.email=x@example.org commit -q -m one && "
        "git clone -q . ../clone-of-it && git -C ../clone-of-it log --oneline | wc -l; "
        "git gc -q"
    )
    (tmp_path / "repository").mkdir()
    done = run("sh", "-c", line, cwd=tmp_path / "repository")
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr


def test_gcc_works(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main() { puts("hello"); }\n')
    done = run("sh", "-c", "gcc -O2 -o main main.c && ./main", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("hello\n", "")


def test_node_works(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no node")
    code = "require('child_process').exec('echo child', (e, out) => console.log(e, out.trim()))"
    done = run("node", "-e", code, cwd=tmp_path)
    assert done.stdout == "null child\n", done.stderr


def test_pytest_works(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tmp_path, capfd): print('x'); assert 1\n")
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
