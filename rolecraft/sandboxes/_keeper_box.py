"""A sandbox as the keeper knows it: its namespaces and its work folder. It needs no process.

The read-only view of the system is made once by `bwrap`, for all sandboxes that have the same one.
Each sandbox then copies that mount namespace and adds what is its own: the work folder, `/tmp`,
`/dev/shm` and terminals, a network, a host name, and a user namespace in which there is one user
and none can be made.

Standard library only: it is the keeper that imports this.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import struct
from dataclasses import dataclass, field
from typing import NoReturn

from rolecraft.sandboxes import _keeper_calls as calls
from rolecraft.sandboxes._keeper_process import Namespaces
from rolecraft.sandboxes._overlay import Layer, Layers, memory

USER = 1000
"""Who the commands are, inside."""


@dataclass(slots=True)
class Box:
    """One sandbox."""

    folder: str
    """The work folder, as commands see it."""
    disk: int
    top: Layer
    below: list[Layer]
    inside: Namespaces
    root: int
    """The root folder, to open files in."""
    cgroups: list[int] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)

    def freeze(self, layers: Layers) -> list[Layer]:
        """What the work folder is made of now, held for the caller. Nothing of it runs any more.

        Raises `OSError` if it cannot be kept; then the work folder is as it was.
        """
        if os.listdir(self.top.folder):
            layers.freeze(self.top)  # a process of another sandbox may have been handed its folder
            try:
                self._begin_anew(layers)
            except BaseException:
                layers.thaw(self.top)
                raise
        return layers.hold(list(self.below))

    def _begin_anew(self, layers: Layers) -> None:
        """Lay a fresh folder over what there is."""
        top = layers.hold([layers.fresh(self.disk)])[0]
        left = [] if layers.overlays else self.below  # a copy has them in it
        below = [self.top, *(self.below if layers.overlays else [])]
        try:
            fd = layers.work_folder(top, below)
            try:
                _swap(self.inside, self.folder, fd)
            finally:
                os.close(fd)
        except BaseException:
            layers.drop([top])
            raise
        self.top, self.below = top, below
        layers.drop(left)

    def close(self, layers: Layers) -> None:
        """Give up all that it holds."""
        self.inside.close()
        for fd in (self.root, *self.cgroups):
            os.close(fd)
        layers.drop([self.top, *self.below])


@dataclass(frozen=True, slots=True)
class View:
    """A read-only system that sandboxes have in common."""

    mounts: int
    """Its mount namespace."""
    hidden: list[str]
    """Folders of it below `/tmp`, to be brought back when a sandbox has a `/tmp` of its own."""
    root: int | None
    """What is held as its root, if it is not the host's own system."""
    place: str | None
    """Where that is mounted."""


def make_view(argv: list[str], env: dict[str, str]) -> int:
    """The mount namespace that `bwrap` with these options makes. Raises `OSError` with its words.

    `argv` has `{status}` and `{block}` where the numbers of two pipes belong.
    """
    status, status_in = os.pipe()
    block_out, block = os.pipe()
    errors = os.memfd_create("rolecraft")
    words = [word.format(status=status_in, block=block_out) for word in argv]
    try:
        child = os.posix_spawn(
            argv[0],
            words,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, status_in, status_in),
                (os.POSIX_SPAWN_DUP2, block_out, block_out),
                (os.POSIX_SPAWN_DUP2, errors, 2),
            ],
        )
        os.close(status_in)
        said = b""
        while b"}" not in said and (more := os.read(status, 4096)):
            said += more
        namespace = None
        if found := re.search(rb'"child-pid": (\d+)', said):
            with contextlib.suppress(FileNotFoundError):  # it has failed meanwhile, and says why
                namespace = os.open(f"/proc/{int(found[1])}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        os.write(block, b"x")
        _, code = os.waitpid(child, 0)
        if namespace is None or code != 0:
            if namespace is not None:
                os.close(namespace)
            why = os.pread(errors, 4000, 0).decode("utf-8", "replace").strip()
            raise OSError(why or f"bwrap ended with status {code}")
        return namespace
    finally:
        for fd in (status, block, block_out, errors):
            os.close(fd)


def namespaces(
    of: View, work: int, folder: str, disk: int, *, network: bool
) -> tuple[Namespaces, int]:
    """New namespaces after the view `of`, with the work folder mounted, and their root folder."""
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    ready, say = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        _furnish(of, work, folder, disk, network, proc, say, wait)
    opened: list[int] = []
    try:
        for fd in (say, wait, proc):
            os.close(fd)
        if (said := os.read(ready, 4096)) != b"ready":
            raise OSError(said.decode("utf-8", "replace") or "the sandbox's first process is gone")
        for name in ("mnt", "ipc", "uts", "user", *(() if network else ("net",))):
            opened += [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)]
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return Namespaces(*opened), root
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    finally:
        os.close(ready)
        os.close(go)
        os.kill(pid, signal.SIGKILL)  # the keeper buries it with the others


def _furnish(
    of: View, work: int, folder: str, disk: int, network: bool, proc: int, say: int, wait: int
) -> NoReturn:
    """In a process of its own: make the namespaces and hold them until they are taken."""
    try:
        signal.set_wakeup_fd(-1)
        calls.setns(of.mounts)
        new = calls.NEWNS | calls.NEWIPC | calls.NEWUTS
        calls.unshare(new if network else new | calls.NEWNET)
        calls.attach_mount(work, folder)
        hidden = [(path, calls.clone_mount(path, recursive=True)) for path in of.hidden]
        memory("/tmp", disk)
        scratch = []  # /tmp and /dev/shm share one size
        for place in ("/tmp", "/dev/shm"):
            name = f"/tmp/{os.path.basename(place)}"
            os.mkdir(name)
            os.chmod(name, 0o1777)
            scratch.append((place, calls.clone_mount(name)))
        calls.unmount("/tmp")
        for place, mount in scratch:
            calls.attach_mount(mount, place)
        for path, mount in hidden:
            os.makedirs(path, exist_ok=True)
            calls.attach_mount(mount, path)
        options = "newinstance,ptmxmode=0666,mode=620"
        calls.mount("devpts", "/dev/pts", "devpts", calls.MS_NOSUID | calls.MS_NOEXEC, options)
        socket.sethostname("sandbox")
        if not network:
            _loopback_up()
        calls.unshare(calls.NEWUSER)
        calls.set_dumpable(True)  # else what follows would be root's
        for name, text in (
            ("self/setgroups", "deny"),
            ("self/uid_map", f"{USER} 0 1"),
            ("self/gid_map", f"{USER} 0 1"),
            ("sys/user/max_user_namespaces", "0"),
        ):
            fd = os.open(name, os.O_WRONLY, dir_fd=proc)
            os.write(fd, text.encode())
            os.close(fd)
        os.write(say, b"ready")
        os.read(wait, 1)
    except BaseException as error:
        os.write(say, os.fsencode(f"{type(error).__name__}: {error}")[:4000])
    os._exit(1)


def internet_socket(network: int | None) -> int:
    """A socket for TCP in a network namespace; it stays in there, whoever has it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                signal.set_wakeup_fd(-1)
                if network is not None:
                    calls.setns(network)
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                socket.send_fds(theirs, [b"x"], [made.fileno()])
            os._exit(0)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        raise OSError("no socket could be made in the sandbox")
    os.set_inheritable(fds[0], False)
    return fds[0]


def _swap(inside: Namespaces, folder: str, work: int) -> None:
    """Put another work folder in the place of the one that is there."""
    failed, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            inside.enter()
            old = calls.clone_mount(folder)
            calls.unmount(folder)
            try:
                calls.attach_mount(work, folder)
            except OSError:
                calls.attach_mount(old, folder)
                raise
            os._exit(0)
        except BaseException as error:
            os.write(say, os.fsencode(f"{type(error).__name__}: {error}")[:4000])
        os._exit(1)
    os.close(say)
    with open(failed, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    if said:
        raise OSError(said.decode("utf-8", "replace"))


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        interface = struct.pack("16sH22x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, interface)  # SIOCSIFFLAGS
