"""Attacks on the host's processes, on what they share, and on rights. One test an attack."""

# ruff: noqa: ASYNC230 - what these tests do on the host takes no time

from __future__ import annotations

import ctypes
import os
import pty
import secrets
import struct
import time

import pytest

REACH = """
import contextlib, ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
def attempt(what, call):
    try: result = call()
    except (OSError, ValueError): return
    if not (isinstance(result, int) and result < 0): print("it worked:", what)
"""


async def test_signals(attacker, victim) -> None:
    """To one process, to a group, to all there are, and by ways that are no `kill`."""
    attacker.needs("survivors")
    code = f"""{REACH}
attempt("kill", lambda: os.kill(pid, 9))
attempt("killpg", lambda: os.kill(-pid, 9))
attempt("tgkill", lambda: libc.syscall(234, pid, pid, 9))
attempt("tkill", lambda: libc.syscall(200, pid, 9))
attempt("sigqueue", lambda: libc.sigqueue(pid, 9, 0))
attempt("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 9))
import fcntl, socket
a, b = socket.socketpair()
with contextlib.suppress(OSError):
    fcntl.fcntl(a, fcntl.F_SETOWN, pid); fcntl.fcntl(a, 10, 9)  # F_SETSIG
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b"x")
with contextlib.suppress(OSError): os.kill(-1, 9)
"""
    done = await attacker.python(code, victim.pid)
    assert "it worked" not in done.stdout
    victim.check()


async def test_ptrace_and_its_kind(attacker, victim) -> None:
    """Stop a process of the same user, read its memory, and write to it."""
    attacker.needs("files")
    code = f"""{REACH}
attempt("attach", lambda: libc.ptrace(16, pid, 0, 0))
attempt("seize", lambda: libc.ptrace(0x4206, pid, 0, 0))
local = ctypes.create_string_buffer(64)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(local), 64)
for call in (310, 311):
    attempt(call, lambda: libc.syscall(call, pid, vector, 1, vector, 1, 0))
for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "clear_refs", "oom_score_adj"):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        attempt(name, lambda: os.open(f"/proc/{{pid}}/{{name}}", flags))
attempt("pidfd_getfd", lambda: libc.syscall(438, os.pidfd_open(pid), 0, 0))
attempt("kcmp", lambda: libc.syscall(312, pid, os.getpid(), 1, 0, 0))
"""
    assert (await attacker.python(code, victim.pid)).stdout == ""
    victim.check()


async def test_limits_and_priorities_of_others(attacker, victim) -> None:
    """A process may set those of any other of its user: no processor time is as good as a kill."""
    attacker.needs("files")
    code = f"""{REACH}
attempt("prlimit", lambda: libc.prlimit(pid, 0, (ctypes.c_ulong * 2)(0, 0), None))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("ioprio", lambda: libc.syscall(251, 1, pid, 3 << 13))
attempt("affinity", lambda: os.sched_setaffinity(pid, {{0}}))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
nodes = (ctypes.c_ulong * 1)(1)
attempt("migrate", lambda: libc.syscall(256, pid, 1, nodes, nodes))
with contextlib.suppress(OSError): os.setpriority(os.PRIO_USER, os.getuid(), 19)
"""
    assert (await attacker.python(code, victim.pid)).stdout == ""
    victim.check()


async def test_what_the_hosts_processes_are(attacker, victim) -> None:
    """Their number, names and arguments, where the wall says that they cannot be seen."""
    attacker.needs("processes")
    code = f"""{REACH}
attempt("there", lambda: os.stat(f"/proc/{{pid}}"))
attempt("kill 0", lambda: os.kill(pid, 0))
attempt("getsid", lambda: os.getsid(pid))
attempt("priority", lambda: os.getpriority(os.PRIO_PROCESS, pid))
print(len([name for name in os.listdir("/proc") if name.isdigit()]) < 10)
"""
    inside = await attacker.python(f"{REACH}\nprint(os.path.exists(f'/proc/{{pid}}'))", victim.pid)
    if inside.stdout == "True\n":
        pytest.skip("a process of the sandbox has this number, too")
    assert (await attacker.python(code, victim.pid)).stdout == "True\n"


async def test_memory_that_is_shared_by_a_number(attacker) -> None:
    """System V's segments are the machine's: databases keep their pages in them."""
    attacker.needs("files")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = secrets.randbelow(2**30) + 1
    segment = libc.shmget(key, 4096, 0o1666)  # IPC_CREAT, for everybody
    assert segment >= 0
    try:
        place = libc.shmat(segment, None, 0)
        ctypes.memmove(place, b"a secret in memory", 18)
        code = f"""
import ctypes
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
for number in (libc.shmget({key}, 0, 0), {segment}):
    place = libc.shmat(number, None, 0)
    if place in (None, 2**64 - 1): continue
    print(ctypes.string_at(place, 18)); ctypes.memset(place, 0, 18)
"""
        assert "secret" not in (await attacker.python(code)).stdout
        assert ctypes.string_at(place, 18) == b"a secret in memory"
        libc.shmdt(ctypes.c_void_p(place))
    finally:
        libc.shmctl(segment, 0, None)


async def test_files_in_shared_memory(attacker) -> None:
    """/dev/shm is a folder for everybody, with names that can be guessed."""
    attacker.needs("files")
    path = f"/dev/shm/rolecraft-{secrets.token_hex(8)}"
    with open(path, "w") as file:
        file.write("a secret in memory")
        os.fchmod(file.fileno(), 0o666)
    try:
        done = await attacker.sh(f"cat {path}; echo x > {path}; echo x > {path}-new")
        assert "secret" not in done.stdout
        assert set(os.listdir("/dev/shm")).isdisjoint({f"{os.path.basename(path)}-new"})
        with open(path) as file:
            assert file.read() == "a secret in memory"
    finally:
        os.unlink(path)


async def test_keys_of_the_kernel(attacker) -> None:
    """A user's keyring is in no namespace of processes or files."""
    if attacker.way.endswith("once"):
        pytest.skip("a one-shot run's user namespace has a keyring of its own")
    code = f"""{REACH}
attempt("add", lambda: libc.syscall(248, b"user", b"rolecraft", b"x", 1, -4))
attempt("request", lambda: libc.syscall(249, b"user", b"rolecraft", None, -4))
attempt("get", lambda: libc.syscall(250, 0, -4, 1))
"""
    assert (await attacker.python(code, 0)).stdout == ""


async def test_open_files_of_whoever_started_it(attacker, outside) -> None:
    """An open file needs no path; one that is not closed on exec is a way past every wall."""
    fd = os.open(outside / "secret", os.O_RDWR)
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    for each in (fd, folder):
        os.set_inheritable(each, True)
    code = """
import os, stat
for number in range(4096):
    try: status = os.fstat(number)
    except OSError: continue
    if not stat.S_ISFIFO(status.st_mode) and not stat.S_ISCHR(status.st_mode):
        print("open", number, oct(status.st_mode))
"""
    try:
        done = await attacker.python(code)
    finally:
        os.close(fd)
        os.close(folder)
    assert done.stdout == "", "pipes and /dev/null are its own; that is no file of the host's"


async def test_secrets_in_the_environment(attacker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of models are in Rolecraft's own environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the environment")
    done = await attacker.sh(
        f"env; set; cat /proc/self/environ /proc/$PPID/environ /proc/1/environ "
        f"/proc/{os.getpid()}/environ | tr '\\0' '\\n'"
    )
    assert "OPENAI_API_KEY" not in done.stdout
    assert "a secret of the environment" not in done.stdout


async def test_user_namespaces_inside(attacker) -> None:
    """Root in a namespace of one's own: most holes of the kernel's are behind that door."""
    code = f"""{REACH}
for flags in (0x10000000, 0x10020000, 0x7e020000):
    if os.fork() == 0:
        attempt("unshare", lambda: libc.unshare(flags)); os._exit(0)
    os.wait()
    result = libc.syscall(56, flags | 17, 0, 0, 0, 0)
    if result == 0: os._exit(0)
    if result > 0: print("it worked: clone")
"""
    assert (await attacker.python(code, 0)).stdout == ""
    done = await attacker.sh("unshare -Ur id -u; unshare -Urm true && echo mounted")
    assert "0\n" not in done.stdout
    assert "mounted" not in done.stdout


async def test_holes_of_the_kernels_making(attacker) -> None:
    """Modules, bpf, perf, faults handled by users, another kernel: no program needs them."""
    if attacker.way.endswith("once"):
        pytest.skip("a one-shot run has no filter of system calls; its user has no right to these")
    code = f"""{REACH}
for number in (101, 155, 165, 166, 167, 175, 169, 246, 272, 298, 308, 313, 320, 321, 323, 425):
    ctypes.set_errno(0)
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if ctypes.get_errno() != 1 and number != 272: print("not refused:", number, result)
"""
    assert (await attacker.python(code, 0)).stdout == ""


async def test_typing_into_the_terminal_it_was_started_from(attacker) -> None:
    """TIOCSTI puts characters where the next thing the user's shell reads is: CVE-2017-5226."""
    parent, child = pty.openpty()
    saved = [os.dup(number) for number in range(3)]
    code = """
import ctypes, os
libc = ctypes.CDLL(None)
fds = list(range(3))
for path in ("/dev/tty", "/dev/pts/0", "/dev/console", "/proc/self/fd/0"):
    try: fds.append(os.open(path, os.O_RDWR | os.O_NOCTTY))
    except OSError: pass
for fd in fds:
    for request in (0x5412, 0x5412 | 1 << 32):
        if libc.ioctl(fd, ctypes.c_ulong(request), b"x") == 0: print("typed", fd)
"""
    try:
        for number in range(3):
            os.dup2(child, number)
        try:
            done = await attacker.python(code)
        finally:
            for number, fd in enumerate(saved):
                os.dup2(fd, number)
        assert "typed" not in done.stdout
        os.set_blocking(child, False)
        with pytest.raises(BlockingIOError):
            os.read(child, 1)
    finally:
        for fd in (parent, child, *saved):
            os.close(fd)


async def test_more_rights_by_capabilities_or_groups(attacker) -> None:
    """None is left, and none can be had back."""
    done = await attacker.sh("id -u; grep -E 'Cap|NoNewPrivs' /proc/self/status; id -G")
    assert not done.stdout.startswith("0\n")
    for line in done.stdout.splitlines():
        if line.startswith("Cap"):
            assert int(line.split()[1], 16) == 0, line
    code = f"""{REACH}
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
attempt("capset", lambda: libc.capset(header, ctypes.create_string_buffer(b"\\xff" * 24)))
print(libc.prctl(39, 0, 0, 0, 0))
"""
    assert (await attacker.python(code, 0)).stdout == "1\n", "no_new_privs is set"


async def test_the_clock_and_the_name_of_the_machine(attacker) -> None:
    """Every process of the host would see another time."""
    before, host = time.time(), os.uname().nodename
    code = f"""{REACH}
attempt("settime", lambda: libc.clock_settime(0, struct.pack("=qq", 1, 0)))
attempt("adjust", lambda: libc.settimeofday(struct.pack("=qq", 1, 0), None))
attempt("name", lambda: libc.sethostname(b"pwned", 5))
attempt("reboot", lambda: libc.reboot(0x01234567))
"""
    assert (await attacker.python(code, 0)).stdout == ""
    assert 0 <= time.time() - before < 60
    assert os.uname().nodename == host
    assert struct.calcsize("=qq") == 16
