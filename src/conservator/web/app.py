"""The JSON API, and the page that uses it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.resources import files
from string import Template
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

import conservator
from conservator.documents import UTF8, damage, read_input, write_text
from conservator.errors import ConservatorError
from conservator.options import DEFAULTS, MAX_GAP_BYTES, MAX_SEED, REPORT_ALTERNATIVES
from conservator.results.html import as_page
from conservator.system.files import check_encoding
from conservator.web.config import ServerConfig
from conservator.web.guard import Guard
from conservator.web.queue import RestorationQueue
from conservator.web.requests import (
    LONGEST_NAME,
    LONGEST_SIGN,
    DamageRequest,
    DamageResponse,
    File,
    ReadRequest,
    RefusedError,
    ReportRequest,
    RestoreRequest,
    WriteRequest,
)
from conservator.web.worker import dump

NDJSON = "application/x-ndjson"
# The files that are served: path -> package, file, content type.
FILES = {
    "": ("conservator.web", "index.html", "text/html; charset=utf-8"),
    "static/app.js": ("conservator.web", "app.js", "text/javascript; charset=utf-8"),
    "static/app.css": ("conservator.web", "app.css", "text/css; charset=utf-8"),
    "static/icon.svg": ("conservator.web", "icon.svg", "image/svg+xml"),
    "static/sample.md": ("conservator.web", "sample.md", "text/plain; charset=utf-8"),
    "static/view.js": ("conservator.results", "view.js", "text/javascript; charset=utf-8"),
    "static/view.css": ("conservator.results", "view.css", "text/css; charset=utf-8"),
}
# The values that are put into the page: $name in index.html -> value.
SHOWN = {
    "mark": DEFAULTS.mark,
    "max_gap": DEFAULTS.max_gap,
    "longest_gap": MAX_GAP_BYTES,
    "least_gap": round(100 * DEFAULTS.min_gap_confidence),
    "longest_sign": LONGEST_SIGN,
    "alternatives": REPORT_ALTERNATIVES,
    "seed": DEFAULTS.seed,
    "largest_seed": MAX_SEED,
    "longest_name": LONGEST_NAME,
}


def create_app(settings: ServerConfig, jobs: RestorationQueue) -> Guard:
    """The server as an ASGI application, which has documents restored by ``jobs``."""
    app = FastAPI(
        title="Conservator",
        version=conservator.__version__,
        summary="Restore damaged documents by composing frozen expert models position by position.",
        docs_url=None,
        redoc_url=None,
    )
    names = [one["name"] for one in jobs.offered]

    @app.post("/v1/restore", responses={200: {"content": {NDJSON: {}}}, 400: {}, 413: {}, 429: {}, 503: {}, 504: {}})
    async def restore(request: RestoreRequest, http: Request) -> Response:
        """Restore a document.

        With ``Accept: application/x-ndjson``, lines come first that say which place in the line of those who wait it
        has, then what is being done; the last one has the result. Whoever hangs up gives up the place.
        """
        request.check(settings, names)
        if NDJSON in http.headers.get("accept", ""):
            return StreamingResponse(lines(request), media_type=NDJSON)
        work = asyncio.ensure_future(last(request))
        left = asyncio.ensure_future(hung_up(http))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return Response(work.result(), media_type="application/json")
            return Response(status_code=499)  # nobody will read it
        finally:
            work.cancel()
            left.cancel()

    async def last(request: RestoreRequest) -> bytes:
        async with aclosing(jobs.stream(request)) as stream:
            return [one async for one in stream if isinstance(one, bytes)][-1]

    async def lines(request: RestoreRequest) -> AsyncIterator[bytes]:
        try:
            async with aclosing(jobs.stream(request)) as stream:
                async for one in stream:
                    yield b'{"result":' + one.rstrip() + b"}\n" if isinstance(one, bytes) else dump(one)
        except RefusedError as error:
            yield json.dumps({"error": error.detail, "status": error.status, **error.more}).encode() + b"\n"

    @app.post("/v1/damage")
    def damage_document(request: DamageRequest) -> DamageResponse:
        """Replace random bytes of a clean document by U+FFFD."""
        document = request.content(settings)
        data = document.encode("utf-8", "replace") if isinstance(document, str) else document
        try:
            damaged = damage(data, request.rate, burst=request.burst, seed=request.seed)
        except ConservatorError as error:
            raise RefusedError(400, error.problem) from error  # a request names no mark
        return DamageResponse(data=base64.b64encode(damaged).decode())

    @app.post("/v1/read")
    def read(request: ReadRequest) -> File:
        """The text of a file in UTF-8, and its encoding; a file that is not text is refused, and named."""
        if len(request.data) > settings.max_bytes:
            raise RefusedError(
                413, f"{request.name} has {len(request.data)} bytes; at most {settings.max_bytes} are read here"
            )
        source = read_input(request.data, request.encoding, name=request.name, markers=(request.mark, request.gap))
        return File(data=base64.b64encode(source.data).decode(), encoding=source.encoding)

    @app.post("/v1/write")
    def write(request: WriteRequest) -> File:
        """A text in an encoding, or in UTF-8 if a character of it has no place there."""
        encoding = check_encoding(request.encoding)
        try:
            data = write_text(request.text, encoding)
        except ConservatorError:
            data, encoding = write_text(request.text, UTF8), UTF8
        return File(data=base64.b64encode(data).decode(), encoding=encoding)

    @app.post("/v1/report", response_class=Response, responses={200: {"content": {"text/html": {}}}})
    def report(request: ReportRequest) -> Response:
        """The report of a restoration, one HTML file."""
        headers = {"Content-Disposition": 'attachment; filename="report.html"'}
        try:
            page = as_page(request.record, request.title).encode()
        except ValueError as error:  # nan, infinity or half a surrogate pair, which cannot be written
            raise RefusedError(400, f"the record cannot be written: {error}") from error
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/v1/experts")
    async def experts() -> list[dict[str, Any]]:
        """The experts that a request may choose among."""
        return jobs.offered

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """The status of the server, and how many restorations run or wait."""
        return {
            "status": "ok",
            "version": conservator.__version__,
            "restorations": jobs.running + len(jobs.line),
            "running": jobs.running,
            "waiting": len(jobs.line),
        }

    @app.exception_handler(ConservatorError)
    async def bad_input(_: Request, error: ConservatorError) -> Response:
        return refusal(RefusedError.of(error))

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(_: Request, error: RequestValidationError) -> Response:
        return Escaped({"detail": [{key: one[key] for key in ("loc", "msg", "type")} for one in error.errors()]}, 422)

    for path, (package, name, kind) in FILES.items():
        content = (files(package) / name).read_bytes()
        if not path:
            limits = {"max_bytes": settings.max_bytes, "max_references": settings.max_references}
            content = Template(content.decode()).substitute(SHOWN, **limits).encode()
        app.get(f"/{path}", include_in_schema=False)(serve(content, kind))
    # JSON may take six bytes for one byte of a document, and a record is several times as large as its document.
    return Guard(app, 16 * settings.max_bytes + 2**16, settings.host)


def serve(content: bytes, kind: str) -> Any:
    """An endpoint that returns a file."""

    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


async def hung_up(http: Request) -> None:
    """Wait until the client of a request, of which all has been read, has hung up."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def refusal(error: RefusedError) -> Response:
    """The answer to a request that is refused."""
    headers = None if error.later is None else {"Retry-After": str(error.later)}
    return Escaped({"detail": error.detail, **error.more}, error.status, headers)


class Escaped(JSONResponse):
    """JSON in ASCII, because an error message may quote half a surrogate pair, which has no UTF-8."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return json.dumps(content).encode()
