"""Which system calls a sandbox's processes may not make: a seccomp filter, as bytes.

A deny-list after those of Docker and Flatpak: what reaches into other processes, into the kernel or
its namespaces is refused with EPERM; what is too new or cannot be looked into (`clone3`, whose
flags a filter does not see) with ENOSYS, so that the C library falls back to the older call. A
program for another architecture is killed at its first call. What is allowed costs next to nothing:
the kernel remembers it for each number.

Standard library only and nothing of this package. `_keeper_calls.filter_calls` puts a process under
what `filter_bytes` gives.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

Sockets = Literal["all", "internet", "none"]
"""`all`: UNIX, IPv4, IPv6 and netlink's routing. `internet`: these without UNIX sockets, which no
other wall keeps from reaching the host's servers by their paths. `none`: connected pairs only."""

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's AUDIT_ARCH_ number (linux/audit.h) for each machine that is known here."""

NEWEST = 466
"""The highest number that has been looked at (`removexattrat`).

From 424 on, all machines share them.
"""

# Each name with its number on x86_64 and aarch64; -1 where there is none.
NUMBERS: dict[str, tuple[int, int]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    # the kernel itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "create_module": (174, -1),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "get_kernel_syms": (177, -1),
    "query_module": (178, -1),
    "finit_module": (313, 273),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "lsm_set_self_attr": (460, 460),
    # keys, which no namespace holds apart
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "setns": (308, 268),
    "unshare": (272, 97),
    "clone": (56, 220),
    "clone3": (435, 435),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # the machine
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    # memory policy, and what is old and little tested
    "mbind": (237, 235),
    "get_mempolicy": (239, 236),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "modify_ldt": (154, -1),
    "uselib": (134, -1),
    "ustat": (136, -1),
    "sysfs": (139, -1),
    "_sysctl": (156, -1),
    "vserver": (236, -1),
    # memory that outlives those who use it, and is counted to nobody
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    # between processes, by names and numbers that all of a machine share
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "inotify_add_watch": (254, 27),
    # what else can be written of a file that cannot be opened
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    # those whose arguments decide
    "personality": (135, 92),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
}

EXTENDED_ATTRIBUTES = tuple(call for call in NUMBERS if "xattr" in call)
# What only namespaces of IPC and mounts hold apart.
WITHOUT_NAMESPACES = (
    *EXTENDED_ATTRIBUTES,
    *("semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "inotify_add_watch"),
)
# What can be done to other processes of the same user: the argument that names one, and its value
# where that is the caller. Two of these first say whether a process or a whole user is meant.
ABOUT_OTHERS = (
    ("prlimit64", 0, 0),
    ("sched_setaffinity", 0, 0),
    ("sched_setscheduler", 0, 0),
    ("sched_setparam", 0, 0),
    ("sched_setattr", 0, 0),
    ("setpriority", 0, 0),
    ("setpriority", 1, 0),
    ("ioprio_set", 0, 1),
    ("ioprio_set", 1, 0),
)
BY_ARGUMENT = {"clone", "unshare", "personality", "ioctl", "socket", "socketpair"} | {
    call for call, *_ in ABOUT_OTHERS
}
ERRORS = dict.fromkeys(("clone3", "statmount", "listmount"), errno.ENOSYS)
ERRORS |= dict.fromkeys(EXTENDED_ATTRIBUTES, errno.ENOTSUP)
"""What callers take as a sign to do without, or to use what was there before."""

CLONE_NEWUSER = 0x10000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into, and paste from, the terminal
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, 32-bit `uname`; ask only
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
ROUTE = 0  # netlink's protocol that the C library asks for the machine's addresses
STREAM, SEQPACKET, TYPE_MASK = 1, 5, 0xF

# linux/bpf_common.h, linux/seccomp.h
LOAD, AND, JUMP, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
ALLOW, ERROR, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
X32_BIT = 0x40000000


class Check(NamedTuple):
    """Whether an argument, masked, is one of `values`; or none of them.

    The lower half of an argument is all that is looked at: it is all that the kernel takes of those
    that are looked at here.
    """

    argument: int
    values: tuple[int, ...]
    none_of_them: bool = False
    mask: int = 0xFFFFFFFF


class Rule(NamedTuple):
    """Refuse a call with `errno` if all the checks hold; without checks, always."""

    call: str
    errno: int = errno.EPERM
    checks: tuple[Check, ...] = ()


def rules(*, sockets: Sockets = "all", namespaces: bool = True) -> list[Rule]:
    """What is refused.

    Without `namespaces` that hold the host's apart: limits and priorities of other processes, and
    semaphores and queues by name, and extended attributes, too.
    """
    refused = [
        Rule(call, ERRORS.get(call, errno.EPERM))
        for call in NUMBERS
        if call not in BY_ARGUMENT and not (namespaces and call in WITHOUT_NAMESPACES)
    ]
    refused += [
        Rule("clone", checks=(Check(0, (CLONE_NEWUSER,), mask=CLONE_NEWUSER),)),
        Rule("unshare", checks=(Check(0, (CLONE_NEWUSER,), mask=CLONE_NEWUSER),)),
        Rule("personality", checks=(Check(0, PERSONALITIES, none_of_them=True),)),
        Rule("ioctl", checks=(Check(1, (TIOCSTI, TIOCLINUX)),)),
        Rule("socket", checks=(Check(0, (NETLINK,)), Check(2, (ROUTE,), none_of_them=True))),
    ]
    if not namespaces:
        refused += [
            Rule(call, checks=(Check(argument, (own,), none_of_them=True),))
            for call, argument, own in ABOUT_OTHERS
        ]
    if sockets == "all":
        families = (UNIX, INET, INET6, NETLINK)
        odd = Check(0, families, none_of_them=True)
        return [*refused, Rule("socket", errno.EAFNOSUPPORT, (odd,))]
    # A datagram socket of a pair can still be sent to any path.
    unconnected = Check(1, (STREAM, SEQPACKET), none_of_them=True, mask=TYPE_MASK)
    refused.append(Rule("socketpair", checks=(unconnected,)))
    if sockets == "none":
        return [*refused, Rule("socket")]
    odd = Check(0, (INET, INET6, NETLINK), none_of_them=True)
    return [*refused, Rule("socket", checks=(odd,))]


def filter_bytes(refused: Sequence[Rule] | None = None, *, machine: str = "") -> bytes:
    """The filter as the kernel's `struct sock_filter` array. None: the default `rules()`.

    `machine` is this one's unless given. Raises `KeyError` for one that is not in `ARCHITECTURES`.
    """
    machine = machine or os.uname().machine
    architecture = ARCHITECTURES[machine]
    column = list(ARCHITECTURES).index(machine)
    code = [
        (LOAD, 0, 0, 4),
        (IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":  # the x32 calls are the same calls under other numbers
        code += [(IF_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    code += [(IF_AT_LEAST, 0, 1, NEWEST + 1), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    for rule in rules() if refused is None else refused:
        number = NUMBERS[rule.call][column]
        if number >= 0:
            body = _body(rule)
            code += [(IF_EQUAL, 0, len(body), number), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _body(rule: Rule) -> list[tuple[int, int, int, int]]:
    """What follows once the number is this rule's: the error, or the next rule."""
    refuse = (RETURN, 0, 0, ERROR | rule.errno)
    if not rule.checks:
        return [refuse]
    body = [refuse, (LOAD, 0, 0, 0)]  # the number again, for the next rule
    for check in reversed(rule.checks):
        past = len(body) - 1  # from the end of this check to the loading of the number
        count = len(check.values)
        tests = [
            (IF_EQUAL, count - 1 - at + (past if check.none_of_them else 1), 0, value)
            for at, value in enumerate(check.values)
        ]
        if not check.none_of_them:
            tests.append((JUMP, 0, 0, past))
        # On little-endian machines, which these are, the lower half of an argument comes first.
        body = [(LOAD, 0, 0, 16 + 8 * check.argument), (AND, 0, 0, check.mask), *tests, *body]
    return body
