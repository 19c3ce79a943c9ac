"""Whether a sandbox server's address is a wrong one, so that asking again can only say the same."""

from __future__ import annotations

import ssl

from rolecraft.errors import SandboxError

_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)
"""What OpenSSL calls an answer that is no TLS, by its version and by how the answer begins."""
_NO_HTTP = ("illegal status line", "illegal request line")
"""What h11 says of an answer that is no HTTP: that of an SSH server, or an alert of TLS."""


def wrong_address(url: str, error: Exception) -> SandboxError | None:
    """What is wrong with the address, told by why a request failed; None if it may yet go well."""
    why: BaseException | None = error
    while why is not None and not isinstance(why, ssl.SSLError):
        why = why.__cause__ or why.__context__
    if isinstance(why, ssl.SSLCertVerificationError):
        return SandboxError(
            f"The certificate of the sandbox server at {url} is not trusted here "
            f"({why.verify_message}). If it is one of your own: "
            f"`Remote(..., verify=ssl.create_default_context(cafile='...'))`."
        )
    if why is not None and why.reason in _NO_TLS:
        return SandboxError(
            f"What is at {url} does not speak https ({why.reason}). `rolecraft sandbox-server` "
            f"itself speaks http: write http://, or the https address of the proxy before it."
        )
    if str(error).startswith(_NO_HTTP):
        return SandboxError(
            f"What is at {url} does not speak http ({error}). Is this the address that `rolecraft "
            f"sandbox-server` said, and is it not one for https?"
        )
    return None
