"""Checks of all requests, and security headers of all responses."""

import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Guard:
    """ASGI middleware that checks requests.

    A request with both Content-Length and Transfer-Encoding is refused, and its connection is closed.
    A request larger than ``max_bytes`` is refused while it is read. On a loopback address, a request for another host
    is refused: it comes from a page of another site whose host name resolves to this machine (DNS rebinding). Requests
    other than GET are refused if a page of another site sent them. Every response gets HEADERS.
    """

    def __init__(self, app: App, max_bytes: int, host: str) -> None:
        """Wrap ``app``."""
        self.app, self.max_bytes, self.is_local = app, max_bytes, is_loopback(host)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # Proxies may disagree about the end of such a request (request smuggling), so nothing after it is read.
            message = "the request has both Content-Length and Transfer-Encoding; send only one of them"
            await refuse(send, 400, message, (b"connection", b"close"))
            return
        host_header = headers.get(b"host", b"").decode("latin-1")
        if self.is_local and not is_loopback(host_of(host_header)):
            await refuse(send, 421, f"this server accepts requests for {', '.join(LOOPBACK)} only, got {host_header!r}")
            return
        if scope["method"] != "GET" and headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            await refuse(send, 403, "requests from pages of other sites are refused")
            return
        too_large = f"the request is larger than {self.max_bytes} bytes, which is the limit"
        content_length = headers.get(b"content-length", b"0")
        if not content_length.isdigit() or int(content_length) > self.max_bytes:
            await refuse(send, 413, too_large)
            return
        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self.max_bytes:
                raise OverflowError
            return message

        async def add_headers(message: Message) -> None:
            is_start = message["type"] == "http.response.start"
            if received_bytes > self.max_bytes:  # the response of the application is replaced
                if is_start:
                    await refuse(send, 413, too_large)
                return
            await send({**message, "headers": [*message.get("headers", []), *HEADERS]} if is_start else message)

        await self.app(scope, receive_limited, add_headers)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address refers to this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """Return the host of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


async def refuse(send: Send, status: int, message: str, *extra_headers: tuple[bytes, bytes]) -> None:
    """Send an error in the format of FastAPI."""
    body = json.dumps({"detail": message}).encode()
    content_headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers = [*content_headers, *HEADERS, *extra_headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
