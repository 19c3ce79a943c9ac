"""Memory, number and processor share of a group of processes, held by the kernel: cgroup v1 or v2.

    group = create(memory_bytes=2**29, processes=64)    # None where no group can be made
    if group is None: ...                               # rlimits and a watch; `reason()` says why
    child = os.fork()
    if child == 0:
        group.enter()                                   # before exec: what it starts is in, too
        ...
    group.oom_kills()                                   # rose during a call: `killed_for_memory`
    group.kill()                                        # everything in it, also what keeps forking
    group.remove()

For a process that has given its rights away, open the doors before: `doors = group.doors()`, then
`enter(doors)` in it writes to them. A group belongs to the process that made it; if that was killed
with -9, the first `create` of the next one takes the group away with all that still runs in it.
Files in a tmpfs count as memory of whoever wrote them.

Version 1 wants root or a folder given to the user; version 2 a delegated subtree, as systemd gives
to each user's session. A group is made below this process's own, so that limits it stands under
hold on. Under version 2 a group with processes cannot have groups with limits below it, so the
nearest folder above is taken that can. Standard library only, nothing of this package: the process
that keeps a sandbox can load it by its path.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PREFIX = "rolecraft"
WANTED = ("memory", "pids", "cpu")
PERIOD = 100_000
"""Microseconds in which a group may use its share of the processors."""


class Place(NamedTuple):
    """A folder in which groups can be made, and what can be limited there."""

    path: str
    version: int
    controllers: frozenset[str]


_swept: set[Place] = set()


class Group:
    """The folders, one or several, that stand for one group. `held` says what they limit."""

    def __init__(self, folders: Sequence[Place]) -> None:
        self.folders = tuple(folders)
        self.held = frozenset().union(*(folder.controllers for folder in folders))

    def _folder(self, controller: str) -> Place | None:
        return next((each for each in self.folders if controller in each.controllers), None)

    def enter(self) -> None:
        """Move this process in. Raises `OSError` if that is not allowed."""
        self.add(0)

    def add(self, pid: int) -> None:
        """Move a process in, with its threads; its children stay where they are."""
        for folder in self.folders:
            _write(f"{folder.path}/cgroup.procs", str(pid))

    def doors(self, part: Group | None = None) -> list[int]:
        """Open files for `enter`; the right to use them goes with them. Close them after use.

        They take processes of one thread. With a `part` of it they lead into that, as far as it
        goes.
        """
        below = () if part is None else part.folders
        above = {os.path.dirname(each.path) for each in below}
        with contextlib.ExitStack() as opened:
            doors = []
            for each in (*below, *(each for each in self.folders if each.path not in above)):
                doors += [os.open(f"{each.path}/{_door(each)}", os.O_WRONLY)]
                opened.callback(os.close, doors[-1])
            opened.pop_all()
            return doors

    def part(self) -> Group | None:
        """A group in this one, without limits of its own, whose `oom_kills` are counted apart.

        It goes when this one does. None where memory is not `held`, or no more can be made. Under
        version 2 processes can from now on be in parts only.
        """
        memory = self._folder("memory")
        if memory is None:
            return None
        path = f"{memory.path}/{secrets.token_hex(4)}"
        try:
            if memory.version == 2:
                _write(f"{memory.path}/cgroup.subtree_control", "+memory")
            os.mkdir(path)
        except OSError:
            return None
        return Group([Place(path, memory.version, frozenset({"memory"}))])

    def limit(
        self,
        *,
        memory_bytes: int | None = None,
        processes: int | None = None,
        cpus: float | None = None,
    ) -> None:
        """Set limits, as far as they are `held`; None leaves one as it is.

        `processes` counts threads, and all in the group; `cpus` may be a fraction of one.
        """
        if memory_bytes is not None and (memory := self._folder("memory")):
            if memory.version == 2:
                _write(f"{memory.path}/memory.max", str(memory_bytes))
                _write_if_there(f"{memory.path}/memory.swap.max", "0")
            else:
                _limit_memory_v1(memory.path, memory_bytes)
        if processes is not None and (pids := self._folder("pids")):
            _write(f"{pids.path}/pids.max", str(processes))
        if cpus is not None and (cpu := self._folder("cpu")):
            quota = max(1000, int(cpus * PERIOD))
            if cpu.version == 2:
                _write(f"{cpu.path}/cpu.max", f"{quota} {PERIOD}")
            else:
                _write(f"{cpu.path}/cpu.cfs_period_us", str(PERIOD))
                _write(f"{cpu.path}/cpu.cfs_quota_us", str(quota))

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed because memory ran out."""
        memory = self._folder("memory")
        if memory is None:
            return 0
        name = "memory.events" if memory.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)", _read(f"{memory.path}/{name}"), re.M)
        return int(found[1]) if found else 0

    def pids(self) -> list[int]:
        """The processes in it."""
        found: set[int] = set()
        for folder in self.folders:
            for path in (folder.path, *_parts(folder.path)):
                found.update(map(int, _read(f"{path}/cgroup.procs").split()))
        return sorted(found)

    def kill(self, *, seconds: float = 5.0) -> bool:
        """Kill all that is in it but this process, and wait for the end; whether it has come."""
        for folder in self.folders:
            if folder.version == 2:
                _write_if_there(f"{folder.path}/cgroup.kill", "1")  # since Linux 5.14
        with contextlib.suppress(OSError):
            self.limit(processes=0)  # nothing can be started any more: a bomb cannot outrun this
        deadline = time.monotonic() + seconds
        while pids := [pid for pid in self.pids() if pid != os.getpid()]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def remove(self, *, seconds: float = 5.0) -> bool:
        """Kill what is left, and remove the folders; whether they are gone. Twice does no harm."""
        self.kill(seconds=seconds)
        deadline = time.monotonic() + seconds
        for folder in self.folders:
            while True:
                try:
                    for part in _parts(folder.path):
                        os.rmdir(part)
                    os.rmdir(folder.path)
                except FileNotFoundError:
                    break
                except OSError:  # busy: the last of its processes is still going
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(0.001)
                else:
                    break
        return True

    def __repr__(self) -> str:
        return f"Group({', '.join(folder.path for folder in self.folders)})"


def enter(doors: Iterable[int]) -> None:
    """Move this process into the group whose `doors` these are."""
    for door in doors:
        os.write(door, b"0")


def create(
    *,
    memory_bytes: int | None = None,
    processes: int | None = None,
    cpus: float | None = None,
    places: Sequence[Place] | None = None,
) -> Group | None:
    """A new group with these limits; None where none can be made. See `Group.held` for what holds.

    `places` are those of `find_places()` unless given.
    """
    places = find_places() if places is None else places
    if not places:
        return None
    if not _swept.issuperset(places):  # once a process: it takes a look at every group there is
        _swept.update(places)
        sweep(places)
    name = "-".join((PREFIX, *_owner(os.getpid()), secrets.token_hex(4)))
    made: list[Place] = []
    group = Group([])
    try:
        for place in places:
            path = f"{place.path}/{name}"
            os.mkdir(path)
            made.append(place._replace(path=path))
        group = Group(made)
        group.limit(memory_bytes=memory_bytes, processes=processes, cpus=cpus)
    except OSError:
        Group(made).remove()
        return None
    return group


def reason() -> str:
    """Why `create` gives None here, in one line; empty where it does not."""
    if find_places():
        return ""
    if not _mounts():
        return "no cgroup file system is mounted"
    return (
        "this process may not make control groups: version 1 wants root, version 2 a delegated "
        "subtree (for example `systemd-run --user --scope -p Delegate=yes COMMAND`)"
    )


def sweep(places: Sequence[Place]) -> int:
    """Remove groups whose makers are dead; how many folders are gone. Others' stay."""
    gone = 0
    for place in places:
        with contextlib.suppress(OSError):
            for name in os.listdir(place.path):
                if name.startswith(f"{PREFIX}-") and not _alive(name):
                    gone += Group([place._replace(path=f"{place.path}/{name}")]).remove(seconds=1)
    return gone


def _owner(pid: int) -> tuple[str, str, str]:
    """What names a process for good: the namespace of its number, the number, its start."""
    return str(os.stat("/proc/self/ns/pid").st_ino), str(pid), _started(pid)


def _started(pid: int) -> str:
    """Clock ticks from boot to the process's start; empty if there is none."""
    text = _read(f"/proc/{pid}/stat")
    return text.rpartition(")")[2].split()[19] if text else ""


def _alive(name: str) -> bool:
    """Whether a group's maker lives, or cannot be judged from here."""
    words = name.split("-")
    if len(words) != 5 or words[1] != str(os.stat("/proc/self/ns/pid").st_ino):
        return True  # of another container, perhaps
    return words[3] == _started(int(words[2]))


def find_places() -> list[Place]:
    """Where this process may make groups, each controller once; empty where nowhere."""
    own = _own_groups()
    places: list[Place] = []
    missing = set(WANTED)
    for version, controllers, root, mounted in _mounts():
        path = next((path for these, path in own if these == controllers), None)
        if path is None:
            continue
        path = os.path.relpath(path, root) if path.startswith(root) else "."
        home = os.path.normpath(os.path.join(mounted, path))
        if version == 2:
            place = _place_v2(home, mounted)
        else:
            place = Place(home, 1, controllers & missing) if _writable(home) else None
        if place is not None and place.controllers & missing:
            places.append(place._replace(controllers=place.controllers & missing))
            missing -= place.controllers
    return places


def _place_v2(home: str, mounted: str) -> Place | None:
    """The nearest group, from this process's own upwards, below which limits can be set."""
    while home.startswith(mounted):
        if _writable(home):
            wanted = {
                each for each in WANTED if each in _read(f"{home}/cgroup.controllers").split()
            }
            for each in wanted - set(_read(f"{home}/cgroup.subtree_control").split()):
                _write_if_there(f"{home}/cgroup.subtree_control", f"+{each}")
            enabled = wanted & set(_read(f"{home}/cgroup.subtree_control").split())
            if enabled & {"memory", "pids"}:
                return Place(home, 2, frozenset(enabled))
        home = os.path.dirname(home)
    return None


def _writable(folder: str) -> bool:
    """Whether groups can be made in it and processes moved from it."""
    return os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)


def _mounts() -> list[tuple[int, frozenset[str], str, str]]:
    """Version, controllers (of version 1), root within the hierarchy, and where it is mounted."""
    found = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        root, mounted = left.split()[3:5]
        if kind == "cgroup2":
            found.append((2, frozenset[str](), root, mounted))
        elif kind == "cgroup":
            controllers = frozenset(options.split(",")) & set(WANTED)
            if controllers:
                found.append((1, controllers, root, mounted))
    return found


def _own_groups() -> list[tuple[frozenset[str], str]]:
    """This process's groups with the wanted controllers of each; with none for version 2."""
    groups = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        wanted = frozenset(controllers.split(",")) & set(WANTED)
        if wanted or not controllers:
            groups.append((wanted, path))
    return groups


def _limit_memory_v1(folder: str, size: int) -> None:
    """Memory, and memory with swap, of which the first may never be above the second."""
    limit, both = f"{folder}/memory.limit_in_bytes", f"{folder}/memory.memsw.limit_in_bytes"
    if not os.path.exists(both):
        _write(limit, str(size))
        return
    names = (limit, both) if size <= int(_read(both) or size) else (both, limit)
    for name in names:
        _write(name, str(size))


def _door(place: Place) -> str:
    """Where a process with one thread moves itself in. By `cgroup.procs` it waits some milliseconds
    for all processors; version 1 also takes single threads, which since Linux 5.5 need no wait.
    """
    return "tasks" if place.version == 1 else "cgroup.procs"


def _read(path: str) -> str:
    """A file's text; empty if it is not there any more."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _parts(folder: str) -> list[str]:
    """The groups in a group."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _write_if_there(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        _write(path, text)
