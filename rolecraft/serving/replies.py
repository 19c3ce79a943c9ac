"""Plain replies: a body in JSON, or a refusal."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from rolecraft._log import log
from rolecraft.errors import RolecraftError
from rolecraft.serving.refusals import Refusal, refusal_of
from rolecraft.serving.wire import encode


def answer(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(encode(body), status, headers, media_type="application/json")


def refuse(error: BaseException) -> Response:
    note(error)
    refusal = refusal_of(error)
    return answer(refusal.body(), refusal.status, refusal.headers())


def note(error: BaseException) -> None:
    """What went wrong on this side goes into the log; what a client did wrong does not."""
    if refusal_of(error).status >= 500:
        if isinstance(error, Refusal):
            log.warning(f"Answered {error.status}: {error}")
        elif isinstance(error, RolecraftError):
            log.error(f"A request failed: {error}")
        else:
            log.opt(exception=error).error(f"A request failed: {type(error).__name__}")
