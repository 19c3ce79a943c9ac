"""What the server answers: a status and a body, and which error becomes which.

Invariant: what Rolecraft itself says of a request crosses as it is; of everything else, which may
hold paths and values of the server, no word leaves it but that the request failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rolecraft._log import log
from rolecraft.errors import RolecraftError, SandboxError, UsageError
from rolecraft.sandboxes._remote_wire import Body, Code, ErrorBody, encoded, error_body
from rolecraft.sandboxes.live import SandboxFileError, SandboxLost, SandboxRefused

JSON = "application/json"


class NotServed(RolecraftError):
    """A request that the server does not serve.

    Attributes: `status` (HTTP), `code` (see `_remote_wire.Code`), `retry_after` (seconds, or None).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: Code = "invalid",
        retry_after: int | None = None,
    ) -> None:
        self.status, self.code, self.retry_after = status, code, retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished answer."""

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(body: Body, status: int = 200) -> Answer:
    return Answer(status, encoded(body))


def answer_to(error: BaseException) -> Answer:
    """The answer to a request in which `error` was raised; what is not the client's is logged."""
    if isinstance(error, NotServed):
        # Never more than the request is wrong or the server busy; nothing was run.
        kind = "UsageError" if error.code == "invalid" and error.status < 500 else "SandboxError"
        if error.status == 410:
            kind = "SandboxLost"
        headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        if error.status == 401:
            headers["www-authenticate"] = "Bearer"
        body = ErrorBody(type=kind, message=str(error), code=error.code)
        return Answer(error.status, error_line(body), JSON, headers)
    known = error_body(error) if isinstance(error, RolecraftError) else None
    if known is not None:
        status = _status(error)
        if status >= 500:
            log.error(f"A request failed: {error}")
        return Answer(status, error_line(known))
    log.opt(exception=error).error(f"A request failed: {type(error).__name__}")
    hidden = "The sandbox server failed on this request; its log says how."
    return Answer(500, error_line(ErrorBody(type="SandboxError", message=hidden)))


def error_line(error: ErrorBody) -> bytes:
    return b'{"error":' + encoded(error) + b"}"


def _status(error: BaseException) -> int:
    match error:
        case UsageError():
            return 400
        case SandboxLost():
            return 410
        case SandboxRefused() | SandboxFileError():
            return 422
        case SandboxError():
            return 500
    return 500
