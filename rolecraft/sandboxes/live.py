"""A sandbox that lives on: one work folder, for as many commands and shells as are wanted.

    async with await Bubblewrap().create(SandboxSpec(base="repository/")) as sandbox:
        await sandbox.write("notes.txt", "a file of the work folder")
        done = await sandbox.run(["python3", "-m", "pytest", "-q"])
        shell = await sandbox.shell()
        await shell.run("cd src && export DEBUG=1")      # the next line finds both
        copies = [await sandbox.fork() for _ in range(8)]

Invariants: `base` is never changed. Whatever a command does, each call returns or raises one of the
errors below within its limits. After `close`, and after a kill -9 of this process, nothing of the
sandbox runs, and nothing of it is on disk. A provider that cannot hold one of these says so in
`walls`, and refuses a spec that requires it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from types import TracebackType, UnionType
from typing import Literal, Protocol, Self, runtime_checkable

from rolecraft.errors import SandboxError, ToolError, UsageError
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits

Wall = Literal[
    "files",  # only the work folder and temporary folders can be written, and of the host nothing
    # can be read but the system and what the spec names
    "network",  # no host can be reached but those that the spec allows
    "processes",  # the host's processes can be neither seen nor signalled
    "memory",  # `memory_bytes` holds for all processes together
    "count",  # `processes` holds for all processes together
    "disk",  # `disk_bytes` holds for all files together
    "survivors",  # nothing outlives `close`, nor a kill -9 of the process that made the sandbox
]
"""What a provider may promise to hold."""
EVERY_WALL: frozenset[Wall] = frozenset(
    ("files", "network", "processes", "memory", "count", "disk", "survivors")
)


@dataclass(frozen=True, slots=True)
class AllowList:
    """A network of these hosts only: names (`example.org`), or `.example.org` for all below one.

    They are reached at ports 80 and 443, or at one that is named in place of these
    (`example.org:8080`). What goes through a tunnel (HTTPS) is not looked at.
    """

    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        if (
            not isinstance(self.hosts, Sequence)
            or isinstance(self.hosts, str)
            or not self.hosts
            or not all(isinstance(host, str) and host for host in self.hosts)
        ):
            raise UsageError(
                f"`AllowList` takes a tuple of host names, such as `AllowList(('example.org',))`; "
                f"got {self.hosts!r}."
            )
        for host in self.hosts:
            name, colon, port = host.partition(":")
            is_port = port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65_536
            if not name or (colon and not is_port):
                raise UsageError(f"`AllowList` takes names, or `name:port`; got {host!r}.")


Network = Literal["none", "full"] | AllowList


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What a sandbox is made of. Frozen: any number of sandboxes are made of one.

    Paths in `files` are relative to the work folder. Raises `UsageError` for what cannot be.
    """

    base: str | Path | None = None
    """A folder of the host whose content the work folder begins with, copy-on-write."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files that are written into the work folder at the start."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment, which else has PATH, HOME and LANG alone."""
    readable: tuple[str | Path, ...] = ()
    """Folders of the host that can also be read, at the same path. They must be there when a
    sandbox is made; with `Remote` they are the server's."""
    root: str | Path | None = None
    """A folder of the host that is the root of the file system, in place of the host's `/usr`."""
    image: str | None = None
    """A container image, for providers that run images."""
    limits: SandboxLimits = DEFAULT_LIMITS
    """Time, file size and output for each command; the rest for all of the sandbox together.
    `limits=` of one `run` replaces all of them: change one by
    `dataclasses.replace(spec.limits, seconds=50)`."""
    network: Network = "none"
    """`full` allows every host, so `requires={"network"}` holds nothing back then: with Bubblewrap
    it is the host's own network, with its loopback and its UNIX sockets without a path."""
    ports: tuple[int, ...] = ()
    """Ports on which commands may listen, to be asked for with `Ports.endpoint`."""
    ttl_seconds: float | None = None
    """After so long without a call, or a line of a shell, `Bubblewrap`, `Landlock`, `LocalProcess`
    and a sandbox server close the sandbox; what is asked of it then raises `SandboxLost`. None: not
    before `close`."""
    requires: frozenset[Wall] = frozenset()
    """What the provider must hold; else it raises `SandboxRefused`."""

    def __post_init__(self) -> None:
        for name in ("base", "root"):
            path = getattr(self, name)
            if path is None:
                continue
            if not isinstance(path, str | Path):
                raise _wrong(name, path, "wants a path")
            if not Path(path).is_dir():
                raise UsageError(f"`SandboxSpec({name}={str(path)!r})`: there is no such folder.")
        for name, kinds, wanted in (
            ("files", str | bytes, "a mapping of paths to text or bytes"),
            ("env", str, "a mapping of names to text"),
        ):
            if not _is_mapping(value := getattr(self, name), kinds):
                raise UsageError(  # without the value: it may be long, or a secret
                    f"`SandboxSpec({name}=...)` wants {wanted}, got {_kinds_in(value)}."
                )
        for name, kind, wanted in (
            ("readable", str | Path, "a tuple of folders, such as `('/data',)`"),
            ("ports", int, "a tuple of ports from 1 to 65535, such as `(8000,)`"),
            ("requires", str, "a set of walls, such as `{'network'}`"),
        ):
            value = getattr(self, name)
            if not isinstance(value, Iterable) or isinstance(value, str | bytes):
                raise _wrong(name, value, f"wants {wanted}")
            values = frozenset(value) if name == "requires" else tuple(value)
            if not all(isinstance(each, kind) for each in values):
                raise _wrong(name, value, f"wants {wanted}")
            object.__setattr__(self, name, values)
        if not all(1 <= port <= 65535 for port in self.ports):
            raise _wrong("ports", self.ports, "wants ports from 1 to 65535")
        if self.network not in ("none", "full") and not isinstance(self.network, AllowList):
            raise _wrong("network", self.network, "wants 'none', 'full' or an `AllowList`")
        if not isinstance(self.limits, SandboxLimits):
            raise _wrong("limits", self.limits, "wants `SandboxLimits(...)`")
        if self.image is not None and not (isinstance(self.image, str) and self.image):
            raise _wrong("image", self.image, "wants the name of an image")
        if unknown := set(self.requires) - EVERY_WALL:
            raise UsageError(
                f"`SandboxSpec(requires=...)` does not know {sorted(unknown)}; "
                f"the walls are {sorted(EVERY_WALL)}."
            )
        if self.ttl_seconds is not None and not (
            isinstance(self.ttl_seconds, Real) and self.ttl_seconds > 0
        ):
            raise _wrong("ttl_seconds", self.ttl_seconds, "must be a number above 0")
        if self.image is not None and self.root is not None:
            raise UsageError("`SandboxSpec` takes an `image` or a `root`, not both.")


def _wrong(name: str, value: object, what: str) -> UsageError:
    return UsageError(f"`SandboxSpec({name}={value!r})` {what}.")


def _is_mapping(value: object, kinds: type | UnionType) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(each, kinds) for key, each in value.items()
    )


def _kinds_in(value: object) -> str:
    if not isinstance(value, Mapping):
        return type(value).__name__
    kinds = {f"{type(key).__name__}: {type(each).__name__}" for key, each in value.items()}
    return f"{{{', '.join(sorted(kinds))}}}"


class SandboxRefused(SandboxError):
    """The provider cannot hold what the spec asks for: `missing` names it."""

    def __init__(self, provider: str, missing: Sequence[str], hint: str = "") -> None:
        self.provider, self.missing = provider, tuple(missing)
        what = ", ".join(f"`{each}`" for each in self.missing)
        super().__init__(f"{provider} cannot hold {what} here.{' ' + hint if hint else ''}")


class SandboxLost(SandboxError):
    """The sandbox, or the shell, is gone: closed, killed, or its server cannot be reached."""


class SandboxFileError(SandboxError, ToolError):
    """A file of the sandbox cannot be read or written: `path` and `reason` say which and why.

    A model whose tool raises it is told, since most such paths are the model's.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"`{path}` in the sandbox: {reason}.")


class Shell(Protocol):
    """A bash that goes on: its folder, variables and functions stay from one line to the next."""

    @property
    def alive(self) -> bool:
        """Whether it can run another line. `exit` ends it, and so does `close`."""
        ...

    async def run(
        self, line: str, *, seconds: float | None = None, output_bytes: int | None = None
    ) -> Execution:
        """Run one line, or several, to the end. Its `stdout` has both streams as they came.

        At `seconds` (the sandbox's limit unless given) what it runs is interrupted, then killed;
        the shell and its state live on. Lines that are given at once run one after the other.
        `exit 3` ends the shell and is an `Execution` with that code. Raises `SandboxLost` if the
        shell is gone.
        """
        ...

    async def interrupt(self) -> None:
        """Send what runs now a SIGINT, as Ctrl-C does; nothing if nothing runs."""
        ...

    async def close(self) -> None:
        """End the shell and all that it started."""
        ...


class Snapshot(Protocol):
    """The work folder as it was. Any number of sandboxes begin with it, without a copy."""

    id: str

    async def create(self) -> LiveSandbox:
        """A sandbox of the same spec that begins here. It has no processes of the first one."""
        ...

    async def close(self) -> None:
        """Forget it. Sandboxes that were made of it live on."""
        ...


class LiveSandbox(Protocol):
    """One sandbox, from `create` to `close`. Paths are relative to `folder`, or absolute inside."""

    id: str
    spec: SandboxSpec
    folder: str
    """The work folder, as commands see it."""

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits | None = None,
        cwd: str = "",
        env: Mapping[str, str] = {},
    ) -> Execution:
        """Run a program with its arguments (no shell) in the work folder, to which `files` are
        written first. All that it started is ended with it. So this is a `Sandbox`, too.
        """
        ...

    async def shell(self, *, cwd: str = "", env: Mapping[str, str] = {}) -> Shell:
        """Start a shell. Any number can run side by side."""
        ...

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """A file's content. Raises `SandboxFileError` if it is none, or larger than `max_bytes`.

        `max_bytes` of 0 or less is a `UsageError`, here and for `download`.
        """
        ...

    async def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """Write a file, its folders too. Raises `SandboxFileError` if that cannot be."""
        ...

    async def upload(self, source: str | Path, path: str) -> None:
        """Copy a file or a folder of the host to `path`."""
        ...

    async def download(
        self, path: str, target: str | Path, *, max_bytes: int | None = None
    ) -> None:
        """Copy a file or a folder to `target` on the host.

        Links that lead out of the folder, devices and sockets are left out: nothing is written
        outside of `target`. Raises `SandboxFileError` if there is nothing, or if all files together
        have more than `max_bytes` (four times the limit `disk_bytes` unless given), holes in files
        included; what came before that stays.
        """
        ...

    async def snapshot(self) -> Snapshot:
        """Keep the work folder as it is now. Shells of this sandbox end; it lives on."""
        ...

    async def fork(self) -> LiveSandbox:
        """Another sandbox that begins as this one is now. As with `snapshot`, shells end."""
        ...

    async def close(self) -> None:
        """End all its processes and delete its files. A second time it does nothing."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Ports(Protocol):
    """A live sandbox whose ports can be reached from here."""

    async def endpoint(self, port: int) -> str:
        """`host:port` at which a server on `port` of `SandboxSpec.ports` is reached from here."""
        ...


class SandboxProvider(Protocol):
    """Makes sandboxes. One object serves any number at once."""

    @property
    def walls(self) -> frozenset[Wall]:
        """What it holds on this machine."""
        ...

    async def create(self, spec: SandboxSpec | None = None) -> LiveSandbox:
        """Make a sandbox, ready for use. None: a spec with nothing special.

        Raises `SandboxRefused` for what it does not hold or have, `SandboxError` if it cannot be
        made here at all.
        """
        ...


def check_walls(provider: str, spec: SandboxSpec, walls: frozenset[Wall], hint: str = "") -> None:
    """Raise `SandboxRefused` if `spec` requires what is not held."""
    if missing := sorted(spec.requires - walls):
        raise SandboxRefused(provider, missing, hint)


def check_port(spec: SandboxSpec, port: int) -> None:
    """Raise `UsageError` for a port that `spec` does not name."""
    if port not in spec.ports:
        raise UsageError(f"`endpoint({port!r})`: `SandboxSpec.ports` has {list(spec.ports)}.")


def check_readable(readable: Iterable[str | Path]) -> None:
    """Raise `UsageError` for what is not there. For providers that look at this machine's."""
    for path in readable:
        if not Path(path).exists():
            raise UsageError(f"`readable` has {str(path)!r}: there is no such folder here.")
