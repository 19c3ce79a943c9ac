"""What the server answers when it cannot do what was asked: OpenAI's error object.

Invariant: every refusal is `{"error": {message, type, param, code}}` with one of the statuses of
`KINDS`, so that OpenAI's clients raise the exception that they have for it.
"""

from __future__ import annotations

from typing import Any, Literal

from rolecraft.errors import ModelError, ModelUnavailable, RolecraftError

Kind = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "server_error",
    "overloaded_error",
]

KINDS: dict[int, Kind] = {
    400: "invalid_request_error",  # a field is missing, has a bad value, or cannot be honoured
    401: "authentication_error",  # no key, or one that is not accepted
    403: "permission_error",  # a key is there and does not allow it
    404: "not_found_error",  # no such path, model or adapter
    405: "invalid_request_error",  # another method
    408: "invalid_request_error",  # the body did not come in time
    413: "invalid_request_error",  # the body is larger than the server reads
    415: "invalid_request_error",  # the body is not declared as JSON
    500: "server_error",  # the engine failed on this request
    503: "overloaded_error",  # as much is under way as the server admits, or the engine is away
}
"""The statuses that the server answers with, and OpenAI's `type` for each."""


RETRY_AFTER = 5
"""Seconds after which to ask again while an engine is away: it starts anew at the next call."""


class Refusal(RolecraftError):
    """A request that is refused.

    Attributes: `status` (HTTP), `param` (path of the field that is wrong, such as
    `messages.0.content`; None where it is none), `code` (a word for programs, or None),
    `retry_after` (seconds, or None).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.status, self.param, self.code = status, param, code
        self.retry_after = retry_after
        super().__init__(message)

    def body(self) -> dict[str, Any]:
        return {
            "error": {
                "message": str(self),
                "type": KINDS.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


def refusal_of(error: BaseException) -> Refusal:
    """What to answer when `error` was raised while a request was served.

    What is wrong with a request is a `Refusal` by then. Everything else is a failure on this side,
    of which only what Rolecraft itself says is told; an engine that is away may come back.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ModelUnavailable):
        return Refusal(str(error), status=503, code="engine_unavailable", retry_after=RETRY_AFTER)
    if isinstance(error, ModelError):
        return Refusal(str(error), status=500, code="engine_failed")
    return Refusal("The server failed on this request; its log says how.", status=500)
