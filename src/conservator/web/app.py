"""The JSON API, and the web page."""

import asyncio
import base64
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.resources import files
from string import Template
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

import conservator
from conservator.document import open_document
from conservator.documents import damage, encode_text
from conservator.errors import ConservatorError
from conservator.options import OPTIONS, REPORT_ALTERNATIVES, Option, RestoreOptions
from conservator.results import Record
from conservator.results.html import as_page
from conservator.system.files import check_encoding
from conservator.web.config import ServerConfig
from conservator.web.guard import Guard
from conservator.web.queue import RestorationQueue
from conservator.web.requests import (
    FIELDS,
    MAX_NAME_CHARS,
    SURFACE,
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
# Static files: path -> package, file, content type.
FILES = {
    "": ("conservator.web", "index.html", "text/html; charset=utf-8"),
    "static/app.js": ("conservator.web", "app.js", "text/javascript; charset=utf-8"),
    "static/app.css": ("conservator.web", "app.css", "text/css; charset=utf-8"),
    "static/icon.svg": ("conservator.web", "icon.svg", "image/svg+xml"),
    "static/sample.md": ("conservator.web", "sample.md", "text/plain; charset=utf-8"),
    "static/view.js": ("conservator.results", "view.js", "text/javascript; charset=utf-8"),
    "static/view.css": ("conservator.results", "view.css", "text/css; charset=utf-8"),
}


def sequence_input(option: Option) -> str:
    """Return the input of an option that is a sequence of texts: a text area with one text per line."""
    label, identifier = html.escape(re.split(r"\.(?: |$)", option.help)[0]), option.name.replace("_", "-")
    return f'<label>{label}; one per line<textarea id="{identifier}" name="{option.name}" rows="3"></textarea></label>'


# Values of the placeholders in index.html: the default and the bounds of each option, and others.
PAGE_VALUES = {
    **{name: option.default for name, option in OPTIONS.items()},
    **{f"{name}_min": option.min for name, option in OPTIONS.items()},
    **{f"{name}_max": option.upper_bound(SURFACE) for name, option in OPTIONS.items()},
    "min_gap_percent": round(100 * OPTIONS["min_gap_confidence"].default),
    "alternatives": REPORT_ALTERNATIVES,
    "max_name_chars": MAX_NAME_CHARS,
    "sequences": "\n".join(sequence_input(OPTIONS[name]) for name in FIELDS if OPTIONS[name].is_sequence),
}
# JSON needs up to six bytes per byte of a document, and a record is several times as large as its document.
REQUEST_BYTES_PER_BYTE = 16  # ratio: size of a request over that of its document [safety limit]
REQUEST_EXTRA_BYTES = 2**16  # bytes: size of a request without its document [safety limit]


def create_app(config: ServerConfig, queue: RestorationQueue) -> Guard:
    """Create the ASGI application; ``queue`` runs the restorations."""
    app = FastAPI(
        title="Conservator",
        version=conservator.__version__,
        summary="Restore damaged documents with several expert models, weighted at every position.",
        docs_url=None,
        redoc_url=None,
    )
    expert_names = [expert["name"] for expert in queue.expert_info]

    @app.post("/v1/restore", responses={200: {"content": {NDJSON: {}}}, 400: {}, 413: {}, 429: {}, 503: {}, 504: {}})
    async def restore(request: RestoreRequest, http: Request) -> Response:
        """Restore a document.

        With ``Accept: application/x-ndjson``, the response is a stream of JSON lines: the position in the queue, then
        progress, then the result. Disconnecting cancels the restoration.
        """
        request.check(config, expert_names)
        if NDJSON in http.headers.get("accept", ""):
            return StreamingResponse(stream_lines(request), media_type=NDJSON)
        work = asyncio.ensure_future(final_result(request))
        disconnect = asyncio.ensure_future(client_disconnected(http))
        try:
            await asyncio.wait({work, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return Response(work.result(), media_type="application/json")
            return Response(status_code=499)  # the client has disconnected
        finally:
            work.cancel()
            disconnect.cancel()

    async def final_result(request: RestoreRequest) -> bytes:
        async with aclosing(queue.stream(request)) as stream:
            return [message async for message in stream if isinstance(message, bytes)][-1]

    async def stream_lines(request: RestoreRequest) -> AsyncIterator[bytes]:
        try:
            async with aclosing(queue.stream(request)) as stream:
                async for message in stream:
                    if isinstance(message, bytes):
                        yield b'{"result":' + message.rstrip() + b"}\n"
                    else:
                        yield dump(message)
        except RefusedError as error:
            yield json.dumps({"error": error.detail, "status": error.status, **error.fields}).encode() + b"\n"

    @app.post("/v1/damage")
    def damage_document(request: DamageRequest) -> DamageResponse:
        """Replace random bytes of a clean document by U+FFFD."""
        document = request.content(config)
        data = document.encode("utf-8", "replace") if isinstance(document, str) else document
        try:
            damaged = damage(data, request.rate, burst=request.burst, seed=request.seed)
        except ConservatorError as error:
            raise RefusedError(
                400, error.problem
            ) from error  # the advice is about the option mark, which is missing here
        return DamageResponse(data=base64.b64encode(damaged).decode())

    @app.post("/v1/read")
    def read(request: ReadRequest) -> File:
        """Return the text of a text file or an OCR file; for other files, the error names the file type."""
        if len(request.data) > config.max_bytes:
            raise RefusedError(
                413,
                f"{request.name} is too large: it has {len(request.data)} bytes, the limit is {config.max_bytes} bytes",
            )
        options = RestoreOptions(encoding=request.encoding, mark=request.mark, gap=request.gap)
        document = open_document(request.data, options, name=request.name, read_scans=False)
        file_format = None if document.transcript is None else document.transcript.format
        return File(data=base64.b64encode(document.data).decode(), encoding=document.encoding, format=file_format)

    @app.post("/v1/write")
    def write(request: WriteRequest) -> File:
        """Convert a text to an encoding, or to UTF-8 if the encoding lacks one of its characters."""
        data, encoding = encode_text(request.text, check_encoding(request.encoding))
        return File(data=base64.b64encode(data).decode(), encoding=encoding, format=None)

    @app.post("/v1/report", response_class=Response, responses={200: {"content": {"text/html": {}}}})
    def report(request: ReportRequest) -> Response:
        """Create the report of a restoration, as one HTML file."""
        headers = {"Content-Disposition": 'attachment; filename="report.html"'}
        page = as_page(Record.from_dict(request.record), request.title).encode()
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/v1/experts")
    async def experts() -> list[dict[str, Any]]:
        """List the experts that a request can select."""
        return queue.expert_info

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Return the status of the server, and the numbers of running and waiting restorations."""
        return {
            "status": "ok",
            "version": conservator.__version__,
            "restorations": queue.running + queue.waiting,
            "running": queue.running,
            "waiting": queue.waiting,
        }

    @app.exception_handler(ConservatorError)
    async def input_error(_: Request, error: ConservatorError) -> Response:
        return error_response(RefusedError.of(error))

    @app.exception_handler(RefusedError)
    async def refused_error(_: Request, error: RefusedError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def validation_error(_: Request, error: RequestValidationError) -> Response:
        details = [{key: detail[key] for key in ("loc", "msg", "type")} for detail in error.errors()]
        return AsciiJSONResponse({"detail": details}, 422)

    for path, (package, name, content_type) in FILES.items():
        content = (files(package) / name).read_bytes()
        if not path:
            limits = {"max_bytes": config.max_bytes, "max_references": config.max_references}
            content = Template(content.decode()).substitute(PAGE_VALUES, **limits).encode()
        app.get(f"/{path}", include_in_schema=False)(static_endpoint(content, content_type))
    return Guard(app, REQUEST_BYTES_PER_BYTE * config.max_bytes + REQUEST_EXTRA_BYTES, config.host)


def static_endpoint(content: bytes, content_type: str) -> Any:
    """Return an endpoint that serves a file."""

    async def endpoint() -> Response:
        return Response(content, media_type=content_type)

    return endpoint


async def client_disconnected(http: Request) -> None:
    """Wait until the client of a completely received request disconnects."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def error_response(error: RefusedError) -> Response:
    """Return the response for a refused request."""
    headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return AsciiJSONResponse({"detail": error.detail, **error.fields}, error.status, headers)


class AsciiJSONResponse(JSONResponse):
    """JSON in ASCII, because an error message may quote a lone surrogate, which UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return json.dumps(content).encode()
