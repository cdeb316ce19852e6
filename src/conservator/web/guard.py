"""Checks of every request, and security headers on every response."""

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
    """An ASGI wrapper.

    A request with both Content-Length and Transfer-Encoding is refused, and its connection closed.
    A request larger than ``limit`` bytes is refused while it is read. On a loopback address, a request for another host
    is refused: it comes from a foreign page whose host name was made to resolve to this machine (DNS rebinding).
    Requests other than GET are refused if a page of another site sent them. Every response carries HEADERS.
    """

    def __init__(self, app: App, limit: int, host: str) -> None:
        """Guard ``app``."""
        self.app, self.limit, self.local = app, limit, is_loopback(host)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # Proxies may disagree about where such a request ends (request smuggling), so nothing after it is read.
            why = "the request has both Content-Length and Transfer-Encoding; send one of them"
            await refuse(send, 400, why, (b"connection", b"close"))
            return
        name = headers.get(b"host", b"").decode("latin-1")
        if self.local and not is_loopback(host_of(name)):
            await refuse(send, 421, f"this server answers for {', '.join(LOOPBACK)}, not for {name!r}")
            return
        if scope["method"] != "GET" and headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            await refuse(send, 403, "requests of other pages are refused")
            return
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self.limit:
            await refuse(send, 413, f"the request is larger than {self.limit} bytes, the most that is read")
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.limit:
                raise OverflowError
            return message

        async def sealed(message: Message) -> None:
            starts = message["type"] == "http.response.start"
            if size > self.limit:  # the response of the application is replaced
                if starts:
                    await refuse(send, 413, f"the request is larger than {self.limit} bytes, the most that is read")
                return
            await send({**message, "headers": [*message.get("headers", []), *HEADERS]} if starts else message)

        await self.app(scope, counted, sealed)


def is_loopback(host: str) -> bool:
    """Whether a host name or address reaches only this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(name: str) -> str:
    """The host of a Host header, without its port."""
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name


async def refuse(send: Send, status: int, why: str, *more: tuple[bytes, bytes]) -> None:
    """Send an error in FastAPI's format, with ``more`` headers."""
    body = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
