"""The kernel's calls for namespaces, mounts and rights, which Python has no names for.

Standard library only: the keeper, which makes sandboxes, imports this without Rolecraft. Each call
raises `OSError` as Python's own do. Numbers of calls from 424 on are the same on every machine.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

NEWNS: Final = 0x00020000
NEWUTS: Final = 0x04000000
NEWIPC: Final = 0x08000000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000
NEWNET: Final = 0x40000000

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _CLOSE_RANGE, _MOUNT_SETATTR = 428, 429, 437, 436, 442
_AT_FDCWD = -100
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 0x1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x2, 0x10
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _SECCOMP_MODE_FILTER = 38, 47, 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *values: int | bytes) -> int:
    """A call that the C library has no name for; `what` is for the error."""
    words = [value if isinstance(value, bytes) else ctypes.c_long(value) for value in values]
    return _check(_libc.syscall(ctypes.c_long(number), *words), what)


def unshare(flags: int) -> None:
    """Leave the namespaces in `flags` for new ones."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int = 0) -> None:
    """Enter the namespace that `fd` stands for."""
    _check(_libc.setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    data = os.fsencode(options) if options else None
    result = _libc.mount(*words, ctypes.c_ulong(flags), data)
    _check(result, f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    """Take a mount out of sight; it goes when its last user does."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def clone_mount(path: str, *, recursive: bool = False) -> int:
    """A copy of the mount at `path` that is mounted nowhere yet."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    return syscall(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def attach_mount(fd: int, target: str) -> None:
    """Mount what `clone_mount` gave."""
    syscall(
        f"move_mount to {target}",
        _MOVE_MOUNT,
        fd,
        b"",
        _AT_FDCWD,
        os.fsencode(target),
        _MOVE_MOUNT_F_EMPTY_PATH,
    )


def map_owners(fd: int, user_namespace: int) -> None:
    """Show the files of a cloned mount under the owners that a user namespace's map gives them."""
    attributes = struct.pack("=QQQQ", 0x00100000, 0, 0, user_namespace)  # MOUNT_ATTR_IDMAP
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    syscall("mount_setattr", _MOUNT_SETATTR, fd, b"", flags, attributes, len(attributes))


def open_inside(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` with the folder `root` as the root of all names and links."""
    if not flags & os.O_CREAT:
        mode = 0
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    try:
        return syscall("openat2", _OPENAT2, root, os.fsencode(path), how, len(how))
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None


def close_from(first: int) -> None:
    """Close every open file from number `first` on."""
    try:
        syscall("close_range", _CLOSE_RANGE, first, 2**32 - 1, 0)
    except OSError:  # Linux before 5.9
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def die_with_parent() -> None:
    """Have this process killed when the thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


def set_dumpable(on: bool) -> None:
    """Whether processes of the same user may look into this one's memory and files."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(on), 0, 0, 0), "prctl")


def drop_rights() -> None:
    """Give up every capability for good, and all that a program with a set-user-id bit gives."""
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:  # to the last one there is
        capability += 1
    _check(_libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0), "prctl")  # PR_CAP_AMBIENT_CLEAR_ALL
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    _check(_libc.capset(header, bytes(24)), "capset")
    gain_no_rights()


def gain_no_rights() -> None:
    """Have no program give this process rights that it does not have. Filters want this first."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def filter_calls(program: bytes) -> None:
    """Let a BPF program, of 8 bytes an instruction, decide about this process's system calls."""
    wanted = _Program(len(program) // 8, program)
    result = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0)
    _check(result, "seccomp")
