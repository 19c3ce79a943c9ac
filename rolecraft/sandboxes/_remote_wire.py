"""What `Remote` and the sandbox server say to each other: bodies, answers, errors.

Invariant: a field that one side does not know is refused, never ignored; what is raised on the
server as one of Rolecraft's errors of sandboxes is raised on the client as the same class, with the
same text and attributes, and anything else crosses without its text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits
from rolecraft.sandboxes.live import (
    AllowList,
    Network,
    SandboxFileError,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    Wall,
)

AnyBody = TypeVar("AnyBody", bound="Body")

LEASE = "rolecraft-lease"
"""Header: the client's lease, a word that it made up. What it makes is closed with its lease."""
REQUEST = "rolecraft-request"
"""Header: a request's id, a word of the client's. The same one again gets the same answer."""
INSTANCE = "rolecraft-instance"
"""Header: the server's process that is meant. Another one does not know what was done before."""
FOLLOW = "rolecraft-follow"
"""Header: the client wants to hear what a command prints, beyond so many pieces that it has."""
NDJSON = "application/x-ndjson"
"""Media type of an answer in lines of JSON: signs of life, pieces of output, and at the end the
answer. A client that accepts it gets it when the answer takes its time."""

Code = Literal[
    "",
    "token",  # none, or a wrong one
    "overloaded",  # try again after `Retry-After` seconds
    "unknown_base",  # the folder that a sandbox is to begin with was not uploaded yet
    "other_instance",  # this is another process than the one that was meant
    "forgotten",  # the request was answered, and the answer is no longer kept
    "cancelled",  # the client took the request back
    "invalid",  # the request is not one that the server reads
]


def _decoded(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"is to be base64: {error}") from None
    return value


Data = Annotated[
    bytes,
    BeforeValidator(_decoded),
    PlainSerializer(lambda data: base64.b64encode(data).decode("ascii")),
]
"""Bytes; in JSON as base64."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(lt=2**63)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Body(BaseModel):
    """One object of JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def encoded(body: Body) -> bytes:
    """A body in JSON, in ASCII: text may have characters that UTF-8 does not have."""
    return json.dumps(body.model_dump(), separators=(",", ":")).encode("ascii")


def decoded(kind: type[AnyBody], data: bytes | bytearray) -> AnyBody:
    """The body. Raises `ValueError`, of which pydantic's `ValidationError` is one."""
    try:
        return kind.model_validate(json.loads(data))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class LimitsBody(Body):
    """`SandboxLimits`, field by field."""

    seconds: Annotated[float, Field(allow_inf_nan=False)] = DEFAULT_LIMITS.seconds
    cpu_seconds: Limit = DEFAULT_LIMITS.cpu_seconds
    memory_bytes: Limit = DEFAULT_LIMITS.memory_bytes
    processes: Limit = DEFAULT_LIMITS.processes
    file_bytes: Limit = DEFAULT_LIMITS.file_bytes
    disk_bytes: Limit = DEFAULT_LIMITS.disk_bytes
    output_bytes: Limit = DEFAULT_LIMITS.output_bytes

    @classmethod
    def of(cls, limits: SandboxLimits) -> LimitsBody:
        return cls(**asdict(limits))

    def limits(self) -> SandboxLimits:
        """Raises `UsageError` for a limit that is not above 0."""
        return SandboxLimits(**self.model_dump())


class AllowListBody(Body):
    hosts: list[str]


class SpecBody(Body):
    """`SandboxSpec`, field by field; `base` is the digest of an uploaded archive."""

    base: Digest | None = None
    files: dict[str, Data] = {}
    env: dict[str, str] = {}
    readable: list[str] = []
    root: str | None = None
    image: str | None = None
    limits: LimitsBody = LimitsBody()
    network: Literal["none", "full"] | AllowListBody = "none"
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = []
    ttl_seconds: Seconds | None = None
    requires: list[Wall] = []

    @classmethod
    def of(cls, spec: SandboxSpec, base: str | None) -> SpecBody:
        network = spec.network
        return cls(
            base=base,
            files=as_data(spec.files),
            env=dict(spec.env),
            readable=[str(path) for path in spec.readable],
            root=None if spec.root is None else str(spec.root),
            image=spec.image,
            limits=LimitsBody.of(spec.limits),
            network=(
                AllowListBody(hosts=list(network.hosts))
                if isinstance(network, AllowList)
                else network
            ),
            ports=list(spec.ports),
            ttl_seconds=spec.ttl_seconds,
            requires=sorted(spec.requires),
        )

    def spec(self, base: str | None) -> SandboxSpec:
        """The spec; `base` is where the archive was unpacked. Raises `UsageError`."""
        network: Network
        if isinstance(self.network, AllowListBody):
            network = AllowList(tuple(self.network.hosts))
        else:
            network = self.network
        return SandboxSpec(
            base=base,
            files=self.files,
            env=self.env,
            readable=tuple(self.readable),
            root=self.root,
            image=self.image,
            limits=self.limits.limits(),
            network=network,
            ports=tuple(self.ports),
            ttl_seconds=self.ttl_seconds,
            requires=frozenset(self.requires),
        )


class RunBody(Body):
    """`LiveSandbox.run`, or without `cwd` and `env` one command in a fresh folder."""

    command: list[str]
    files: dict[str, Data] = {}
    stdin: Data = b""
    limits: LimitsBody | None = None
    cwd: str = ""
    env: dict[str, str] = {}


class ShellBody(Body):
    cwd: str = ""
    env: dict[str, str] = {}


class LineBody(Body):
    line: str
    seconds: Seconds | None = None
    output_bytes: Annotated[int, Field(gt=0)] | None = None


class Nothing(Body):
    """No fields."""


class About(Body):
    """What the server is."""

    provider: str
    walls: list[Wall]
    instance: str
    lease_seconds: float
    max_body: int
    max_upload: int


class Made(Body):
    """A sandbox, a shell or a snapshot that was made. Only a sandbox has a folder."""

    id: str
    folder: str = ""


class Done(Body):
    """What came of a command; of a shell also whether it lives on."""

    execution: Execution
    alive: bool = True


class Endpoint(Body):
    address: str


class ErrorBody(Body):
    """An error: its class, its text, and what it has besides."""

    type: str
    message: str
    code: Code = ""
    attributes: dict[str, str | tuple[str, ...]] = {}


class Line(Body):
    """One line of an answer in lines: a piece of output, or, empty, a sign of life. The last one
    is `{"status": ..., "answer": {...}}` or `{"status": ..., "error": {...}}`.
    """

    output: Data | None = None


ERRORS: Mapping[str, type[RolecraftError]] = {
    kind.__name__: kind
    for kind in (SandboxError, SandboxRefused, SandboxLost, SandboxFileError, UsageError)
}
"""The classes that cross the wire as themselves."""


def as_data(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """Contents as bytes, as `base.checked` makes them, whatever the names are."""
    from rolecraft.sandboxes.base import as_bytes

    return {name: as_bytes(content) for name, content in files.items()}


def error_body(error: RolecraftError, code: Code = "") -> ErrorBody | None:
    """The error as it crosses the wire, as the nearest class that does; None if none is."""
    for kind in type(error).__mro__:
        if kind.__name__ in ERRORS and ERRORS[kind.__name__] is kind:
            attributes = {
                name: value
                for name, value in vars(error).items()
                if isinstance(value, str)
                or (isinstance(value, tuple) and all(isinstance(each, str) for each in value))
            }
            return ErrorBody(
                type=kind.__name__, message=str(error), code=code, attributes=attributes
            )
    return None


def error_of(body: ErrorBody) -> RolecraftError:
    """The error that `body` is about."""
    kind = ERRORS.get(body.type, SandboxError)
    error = kind.__new__(kind, body.message)  # the text is finished; constructors make it of parts
    vars(error).update(body.attributes)
    return error


def in_words(error: ValueError) -> str:
    """What is wrong with a body: the first fields, by their paths, and never the values."""
    if not isinstance(error, ValidationError):
        return f"`body`: {error}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"`{'.'.join(map(str, each['loc'])) or 'body'}`: {each['msg']}" for each in found[:3]]
    return "; ".join(told)
