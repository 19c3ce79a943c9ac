"""What a command asks the proxy for, read strictly: two readers of one request must not differ.

Invariant: what is sent on has one reading, and it is the one that the allow-list was asked about.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

LINE = re.compile(r"([A-Z]{1,20}) ([!-\[\]-~]+) (HTTP/1\.[01])")
AUTHORITY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*)(?::([0-9]{1,5}))?")
FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[\t ]*(?:;[\t -~]*)?\r\n")
OF_ONE_CONNECTION = {
    *("connection", "keep-alive", "te", "trailer", "upgrade"),
    *("host", "transfer-encoding", "content-length"),  # said anew
}
PIECE = 65_536


class Refused(Exception):
    """Why a request is not served; `status` is HTTP's."""

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Request:
    """Where it wants to go, and what is sent there. A `tunnel` sends nothing by itself."""

    host: str
    port: int
    tunnel: bool
    head: bytes
    body_bytes: int | None
    """None: it comes in chunks."""


def parse(head: bytes) -> Request:
    """A request's head, to its empty line. Raises `Refused` for what is not exactly one."""
    text = head.decode("latin-1").removesuffix("\r\n\r\n")
    line, *rest = text.split("\r\n")
    words = LINE.fullmatch(line)
    if words is None:
        raise Refused("400 Bad Request", f"This is no request: {line[:200]!r}.")
    method, target, version = words.groups()
    fields = [_field(each) for each in rest]
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.lower(), []).append(value.strip(" \t"))
    if len(values.get("host", ())) > 1:
        raise Refused("400 Bad Request", "It names more than one `Host`.")
    host, port, path = _where(target, tunnel=method == "CONNECT")
    if method == "CONNECT":
        return Request(host, port, tunnel=True, head=b"", body_bytes=0)
    body_bytes = _body_bytes(values)
    named = host if port == 80 else f"{host}:{port}"
    lines = [f"{method} {path} {version}", f"Host: {named}", "Connection: close"]
    if body_bytes is None:
        lines.append("Transfer-Encoding: chunked")
    elif "content-length" in values:
        lines.append(f"Content-Length: {body_bytes}")
    lines += [
        f"{name}:{value}"
        for name, value in fields
        if name.lower() not in OF_ONE_CONNECTION and not name.lower().startswith("proxy-")
    ]
    sent = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return Request(host, port, tunnel=False, head=sent, body_bytes=body_bytes)


def _field(line: str) -> tuple[str, str]:
    found = FIELD.fullmatch(line)
    if found is None:  # also a line feed by itself, and a line that goes on with the one before
        raise Refused("400 Bad Request", f"This is no field of a head: {line[:200]!r}.")
    return found[1], found[2]


def _where(target: str, *, tunnel: bool) -> tuple[str, int, str]:
    """Host, port and path."""
    wrong = Refused("400 Bad Request", f"No host can be read from {target[:200]!r}.")
    if tunnel:
        authority, path = target, ""
    else:
        try:
            url = urlsplit(target)
        except ValueError:
            raise wrong from None
        if url.scheme != "http":
            raise wrong
        authority = url.netloc.rpartition("@")[2]
        path = url._replace(scheme="", netloc="", fragment="").geturl()
        if not path.startswith("/"):
            path = f"/{path}"
    found = AUTHORITY.fullmatch(authority)
    port = int(found[2]) if found and found[2] else 443 if tunnel else 80
    if found is None or not 0 < port < 65_536:
        raise wrong
    return found[1], port, path


def _body_bytes(values: dict[str, list[str]]) -> int | None:
    coding, lengths = values.get("transfer-encoding", []), values.get("content-length", [])
    if coding:
        if [each.lower() for each in coding] != ["chunked"] or lengths:
            raise Refused("400 Bad Request", "The length of its body can be read in two ways.")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or re.fullmatch("[0-9]{1,18}", lengths[0]) is None:
        raise Refused("400 Bad Request", f"`Content-Length` is {lengths!r}.")
    return int(lengths[0])


async def send_body(
    request: Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    moved: Callable[[], None],
) -> None:
    """Send on the body and not a byte more: there may be another request behind it.

    Raises `OSError` or `asyncio.IncompleteReadError` for a body that is none.
    """

    async def send(left: int) -> None:
        while left:
            piece = await reader.read(min(left, PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            moved()
            writer.write(piece)
            await writer.drain()

    if request.body_bytes is not None:
        return await send(request.body_bytes)
    while True:
        try:
            line = await reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as error:
            raise OSError("a line without end in place of a chunk") from error
        found = CHUNK.fullmatch(line)
        if found is None:
            raise OSError(f"no chunk: {line[:100]!r}")
        size = int(found[1], 16)
        if size == 0:  # what may come behind it is not sent on
            writer.write(b"0\r\n\r\n")
            return await writer.drain()
        writer.write(b"%x\r\n" % size)
        await send(size)
        if await reader.readexactly(2) != b"\r\n":
            raise OSError("a chunk is longer than it says")
        writer.write(b"\r\n")
