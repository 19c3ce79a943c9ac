"""Why an attempt to get an answer failed, read from what LiteLLM raised.

LiteLLM turns nearly everything into an `InternalServerError` with status 500: a refused
connection, an answer cut off half-way, an HTML page, a missing key. What really happened is in
the chain of causes behind it: a real HTTP status, an error of the transport, or neither, which
means that an answer came and could not be read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from rolecraft.models import _litellm
from rolecraft.models.rate_limiter import OVERLOADED
from rolecraft.trajectories.events import Usage

FailureKind = Literal[
    "rate_limit",  # HTTP 429
    "quota",  # HTTP 429 because the account is used up, which no waiting mends
    "timeout",  # no answer in time, or HTTP 408
    "connection",  # no connection, or lost before an answer began
    "server",  # HTTP 5xx
    "malformed",  # an answer came that is no completion, or only a part of one
    "key",  # HTTP 401, or no key to send
    "filtered",  # the provider's content filter refused the prompt
    "refused",  # any other HTTP 4xx, or a request that LiteLLM would not send
]
PASSING = frozenset({"rate_limit", "timeout", "connection", "server", "malformed"})
"""The kinds that the next attempt may not meet."""

_NAMES = {
    "rate_limit": "rate limit",
    "quota": "quota used up",
    "timeout": "no answer in time",
    "connection": "no connection",
    "server": "server error",
    "malformed": "an answer that is no completion",
    "key": "no valid key",
    "filtered": "content filter",
    "refused": "request refused",
}

# The codes with which Azure and OpenAI refuse a prompt; LiteLLM knows them only in some errors.
_FILTERED = re.compile(r"\((content_filter|content_policy_violation)\)")
# What LiteLLM puts before a provider's words: `litellm.InternalServerError: InternalServerError:
# OpenAIException - Connection error.`
_PREFIXES = re.compile(r"\A(?:litellm\.\w+: |\w+(?:Error|Unavailable): |\w+Exception - )+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed attempt. `retry_after` in seconds, where the server said."""

    kind: FailureKind
    text: str
    status: int | None = None
    retry_after: float | None = None

    @property
    def passing(self) -> bool:
        return self.kind in PASSING

    @property
    def overload(self) -> bool:
        """Whether the server has too much to do: it says so, or does not answer in time."""
        return self.kind in ("rate_limit", "timeout") or (
            self.kind == "server" and self.status in OVERLOADED
        )

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status is not None else ""
        return f"{_NAMES[self.kind]}{status}: {self.text}"


class AttemptFailed(Exception):
    """Carries a `Failure` through the retry loop; never leaves this package.

    `usage` is what the useless answer cost, where it said so.
    """

    def __init__(self, failure: Failure, usage: Usage | None = None) -> None:
        self.failure, self.usage = failure, usage
        super().__init__(str(failure))


def read_failure(error: BaseException) -> Failure:
    """What `error`, raised by `litellm.acompletion` or by a time limit, means."""
    litellm = _litellm.load()
    # Only httpx tells the truth: LiteLLM's own exceptions derive from openai's, with made-up
    # responses and statuses.
    chain = list(_chain(error))
    text = _text(chain)
    for link in chain:
        if _is(link, "HTTPStatusError"):
            response: Any = link.response  # type: ignore[attr-defined]
            return _of_status(response.status_code, text, error, response.headers)
    if any(isinstance(link, TimeoutError) or _is(link, "TimeoutException") for link in chain):
        return Failure(kind="timeout", text=text)
    for link in chain:
        if _cut_off(link):
            return Failure(kind="malformed", text=f"the answer was cut off: {_own_text(link)}")
    if any(_is(link, "TransportError") for link in chain):
        return Failure(kind="connection", text=_own_text(chain[-1]))
    if isinstance(error, litellm.Timeout):
        return Failure(kind="timeout", text=text)
    if isinstance(error, litellm.AuthenticationError) or any(
        type(link).__name__ == "OpenAIError" and _from(type(link), "openai") for link in chain
    ):
        return Failure(kind="key", text=text)
    if any(isinstance(link, json.JSONDecodeError) for link in chain):
        return Failure(kind="malformed", text=text)
    status = _status(error)
    if status is not None and status != 500:
        # LiteLLM's own "no" (400), or an error that a server wraps into an answer with status 200.
        return _of_status(status, text, error, getattr(error, "litellm_response_headers", None))
    return Failure(kind="malformed", text=text)


def retry_after(headers: Mapping[str, str] | None, *, now: float) -> float | None:
    """Seconds to wait according to `Retry-After` (seconds or an HTTP date) or `retry-after-ms`.

    A date is compared with the server's own `Date`, where it sends one, so that a wrong clock
    here changes nothing; else with `now` (seconds since 1970). None where nothing is said, or
    nothing that can be understood.
    """
    if not headers:
        return None
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    said, milliseconds = lower.get("retry-after", ""), lower.get("retry-after-ms", "")
    for value, unit in ((milliseconds, 1000.0), (said, 1.0)):
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    until = _date(said)
    if until is None:
        return None
    return max(until - (_date(lower.get("date", "")) or now), 0.0)


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _of_status(
    status: int, text: str, error: BaseException, headers: Mapping[str, str] | None
) -> Failure:
    kind: FailureKind
    if status == 429:
        # OpenAI and those who follow it answer 429 to an account without money, too.
        kind = "quota" if "insufficient_quota" in text else "rate_limit"
    elif status == 401:
        kind = "key"
    elif status == 408:
        kind = "timeout"
    elif status >= 500:
        kind = "server"
    elif isinstance(error, _litellm.load().ContentPolicyViolationError) or _FILTERED.search(text):
        kind = "filtered"
    elif status >= 400:
        kind = "refused"
    else:
        return Failure(kind="malformed", text=text)
    wait = retry_after(headers, now=time.time()) if kind in PASSING else None
    return Failure(kind=kind, text=text, status=status, retry_after=wait)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those it came from, outermost first."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _cut_off(link: BaseException) -> bool:
    """Whether the connection ended inside an answer: LiteLLM talks through aiohttp or httpx."""
    if _from(type(link), "aiohttp"):
        return type(link).__name__ == "ClientPayloadError"
    return _is(link, "RemoteProtocolError") and "complete message body" in str(link)


def _is(link: BaseException, name: str) -> bool:
    """Whether it is an exception of httpx with that name, or of httpx2, which openai moves to."""
    return any(kind.__name__ == name and _from(kind, "httpx") for kind in type(link).__mro__)


def _from(kind: type, package: str) -> bool:
    return kind.__module__.split(".")[0].rstrip("2") == package


def _status(error: BaseException) -> int | None:
    try:
        return int(getattr(error, "status_code", ""))
    except (TypeError, ValueError):
        return None


def _text(chain: list[BaseException]) -> str:
    """What the server or the library said, in one line, without LiteLLM's own prefixes."""
    for link in chain:
        said = _message(getattr(link, "body", None))  # openai's exceptions have one
        if said:
            return said
    return _own_text(chain[0])


def _own_text(error: BaseException) -> str:
    text = str(error).split("Traceback (most recent call last)", 1)[0]
    text = _PREFIXES.sub("", text, count=1)
    try:
        body, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        body = None
    return _message(body) or _line(text) or type(error).__name__


def _message(body: object) -> str:
    """The words in the body of an error, in the form that nearly all providers use."""
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        return ""
    code = body.get("code")
    return _line(f"{body['message']} ({code})" if code else body["message"])


def _line(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 500 else line[:500] + " ..."
