"""The JSON API, and the page that uses it."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from importlib.resources import files
from string import Template
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

import conservator
from conservator.documents import UTF8, Known, damage, read_source, write_text
from conservator.errors import ConservatorError, NotTextError, OptionError
from conservator.experts import load_experts
from conservator.files import check_encoding
from conservator.options import (
    DEFAULTS,
    ENCODING,
    EXAMPLES,
    LARGEST_SEED,
    LONGEST_GAP,
    LOST,
    SHOWN_ALTERNATIVES,
    are_marks_characters,
)
from conservator.report import as_page
from conservator.restoration import Record, Renewal, Restoration, as_record, plan_renewal, renew
from conservator.restorer import Restorer
from conservator.web.guard import Guard
from conservator.web.jobs import BusyError, Jobs, TooSlowError
from conservator.web.settings import Settings

NDJSON = "application/x-ndjson"
# The files that are served: path -> package, file, content type.
FILES = {
    "": ("conservator.web", "index.html", "text/html; charset=utf-8"),
    "static/app.js": ("conservator.web", "app.js", "text/javascript; charset=utf-8"),
    "static/app.css": ("conservator.web", "app.css", "text/css; charset=utf-8"),
    "static/icon.svg": ("conservator.web", "icon.svg", "image/svg+xml"),
    "static/sample.md": ("conservator.web", "sample.md", "text/plain; charset=utf-8"),
    "static/view.js": ("conservator.report", "view.js", "text/javascript; charset=utf-8"),
    "static/view.css": ("conservator.report", "view.css", "text/css; charset=utf-8"),
}
STATUS: dict[type[Exception], int] = {
    ConservatorError: 400,
    NotTextError: 400,
    OptionError: 400,
    BusyError: 429,
    TooSlowError: 504,
}
LONGEST_SIGN = 64  # characters of a mark or a gap sign
LONGEST_NAME = 200  # characters of the name of a reference
# The values that are put into the page: $name in index.html -> value.
SHOWN = {
    "mark": DEFAULTS.mark,
    "max_gap": DEFAULTS.max_gap,
    "longest_gap": LONGEST_GAP,
    "longest_sign": LONGEST_SIGN,
    "alternatives": SHOWN_ALTERNATIVES,
    "seed": DEFAULTS.seed,
    "largest_seed": LARGEST_SEED,
    "longest_name": LONGEST_NAME,
}


class Document(BaseModel):
    """A document: as text, or as bytes in base64."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    data: Base64Bytes | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> "Document":
        """Require exactly one of text and data."""
        if (self.text is None) == (self.data is None):
            raise ValueError("give text or data, one of them")
        return self

    def content(self, limit: int) -> str | bytes:
        """The document, if it is not larger than ``limit`` bytes."""
        found = self.data if self.text is None else self.text
        size = len(found) if isinstance(found, bytes) else len((found or "").encode("utf-8", "surrogatepass"))
        if size > limit:
            raise HTTPException(413, f"the document has {size} bytes; at most {limit} are restored here")
        return found or ""


class Reference(BaseModel):
    """A text like the document."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    text: str

    def size(self) -> int:
        """How many bytes the text has; a text that is none is refused."""
        if "\0" in self.text:
            raise HTTPException(400, f"the reference {self.name} is a binary file: it holds a zero byte")
        try:
            return len(self.text.encode())
        except UnicodeEncodeError as error:
            raise HTTPException(400, f"the reference {self.name} is no text: it holds a lone surrogate") from error


class Choice(BaseModel):
    """What stands in a lost place."""

    model_config = ConfigDict(extra="forbid")

    origin: tuple[int, int] = Field(description="As in the record: the place's bytes in the damaged document.")
    text: str = Field(min_length=1)


class RestoreRequest(Document):
    """A document to restore, and the options of ``conservator restore``."""

    experts: list[str] | None = Field(
        None, description="Names that GET /v1/experts gives; by default those with something to say of the document."
    )
    mark: str = Field(DEFAULTS.mark, min_length=1, max_length=LONGEST_SIGN)
    gap: str | None = Field(DEFAULTS.gap, min_length=1, max_length=LONGEST_SIGN)
    max_gap: int = Field(DEFAULTS.max_gap, ge=1, le=LONGEST_GAP)
    lost: str = Field(
        DEFAULTS.lost,
        pattern=f"^({'|'.join(LOST)}|{ENCODING}.{{1,40}})$",
        description=f"{', '.join(LOST)}, or {ENCODING}NAME of a one-byte encoding, such as {ENCODING}{EXAMPLES[0]}.",
    )
    channel: str = Field(
        str(DEFAULTS.channel),
        max_length=64,
        pattern=r"^(mask|ocr|replacement:[0-9.eE+-]*)$",
        description="mask, ocr, or replacement:RATE.",
    )
    min_confidence: float = Field(DEFAULTS.min_confidence, ge=0, le=1)
    alternatives: int | None = Field(
        None, ge=0, le=20, description=f"{SHOWN_ALTERNATIVES} where marks show what is lost, else none, by default."
    )
    seed: int = Field(DEFAULTS.seed, ge=0, le=LARGEST_SEED)

    encoding: str | None = Field(
        DEFAULTS.encoding, max_length=64, description="Of data; told by the bytes, by default."
    )
    memory: bool = Field(DEFAULTS.memory, description="Whether text of the document and of references is recalled.")
    like: list[Reference] = Field([], description="References: undamaged texts like the document.")

    choices: list[Choice] = Field([], description="What a reader knows to stand in lost places.")
    previous: dict[str, Any] | None = Field(
        None,
        description="The record of this document before the last choices: what is far from them then stays as it was, "
        "and the experts and what is lost are those of the record.",
    )

    @model_validator(mode="after")
    def remembered_or_none(self) -> "RestoreRequest":
        """Refuse references that no memory would read."""
        if self.like and not self.memory:
            raise ValueError("like: the memory reads these texts, and memory is false")
        return self

    def references(self, settings: Settings) -> list[tuple[str, str]]:
        """The names and texts of the references, if there are not more than the settings allow."""
        if len(self.like) > settings.max_references:
            raise HTTPException(
                413, f"there are {len(self.like)} references; at most {settings.max_references} are read here"
            )
        size = sum(one.size() for one in self.like)
        if size > settings.max_bytes:
            raise HTTPException(
                413, f"the references have {size} bytes together; at most {settings.max_bytes} are read here"
            )
        return [(one.name, one.text) for one in self.like]

    def known(self) -> list[Known]:
        """The choices, in order."""
        return sorted((*one.origin, one.text) for one in self.choices)

    def renewal(self) -> Renewal | None:
        """What of the previous record is restored again; None if there is none."""
        if self.previous is None:
            return None
        with previous_as_error():
            return plan_renewal(self.previous, self.known())

    def loss(self) -> str:
        """What is lost, as it was asked for, or as the previous record says: choices must not change it."""
        if self.previous is None:
            return self.lost
        with previous_as_error():
            return str(self.previous["lost"])

    def experts_wanted(self) -> list[str] | None:
        """The experts that are named, or those of the previous record; None where others than the server's read."""
        if self.previous is None:
            return self.experts
        if are_marks_characters(self.loss()):
            return None
        with previous_as_error():
            memory = self.previous["memory"]
            return [name for number, name in enumerate(self.previous["experts"]) if number != memory]

    def finished(self, found: Restoration) -> Record:
        """The record of the restored document, and its text."""
        record = as_record(found)
        if (renewal := self.renewal()) is not None and self.previous is not None:
            with previous_as_error():
                record = renew(self.previous, record, renewal)
        return {**record, "text": "".join(piece["text"] for piece in record["pieces"])}

    def options(self, settings: Settings) -> dict[str, Any]:
        """The options and the references as a restorer takes them."""
        chosen = self.model_dump(exclude={"text", "data", "experts", "like", "choices", "previous"})
        chosen.update(like=self.references(settings), lost=self.loss())
        renewal = self.renewal()
        chosen["known"] = self.known() if renewal is None else renewal.known
        if chosen["alternatives"] is None:
            marked = self.channel == DEFAULTS.channel
            chosen["alternatives"] = SHOWN_ALTERNATIVES if marked else DEFAULTS.alternatives
        return chosen


class DamageRequest(Document):
    """A document to damage, and the options of ``conservator damage``."""

    rate: float = Field(0.1, ge=0, le=1)
    burst: int = Field(1, ge=1, le=1000)
    seed: int = Field(DEFAULTS.seed, ge=0, le=LARGEST_SEED)


class ReadRequest(BaseModel):
    """A file, as bytes in base64."""

    model_config = ConfigDict(extra="forbid")

    data: Base64Bytes
    name: str = Field("the document", max_length=LONGEST_NAME)
    encoding: str | None = Field(None, max_length=64, description="Told by the bytes, by default.")
    mark: str = Field(DEFAULTS.mark, min_length=1, max_length=LONGEST_SIGN)
    gap: str | None = Field(DEFAULTS.gap, min_length=1, max_length=LONGEST_SIGN)


class WriteRequest(BaseModel):
    """A text, and the encoding that it is wanted in."""

    model_config = ConfigDict(extra="forbid")

    text: str
    encoding: str = Field(max_length=64)


class File(BaseModel):
    """A document as bytes in base64, and its encoding.

    What ``/v1/read`` returns is UTF-8, and ``encoding`` what it was; what ``/v1/write`` returns is in ``encoding``.
    """

    data: str
    encoding: str


class Damaged(BaseModel):
    """A damaged document, as bytes in base64, because it may contain half a character."""

    data: str


class ReportRequest(BaseModel):
    """The record that ``/v1/restore`` returned, to be made into a report."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field("Restored document", max_length=200)
    record: dict[str, Any]


def create_app(settings: Settings) -> Any:
    """Load the experts, and return the server as an ASGI application."""
    team = {expert.spec.name: expert for expert in load_experts(settings.experts)}
    app = FastAPI(
        title="Conservator",
        version=conservator.__version__,
        summary="Restore damaged documents by composing frozen expert models position by position.",
        docs_url=None,
        redoc_url=None,
    )
    jobs = Jobs(settings)

    def restorer_for(request: RestoreRequest) -> Restorer:
        wanted = request.experts_wanted()
        unknown = [str(name) for name in wanted or [] if name not in team]
        if unknown or wanted == []:
            raise HTTPException(400, f"no expert {', '.join(unknown) or 'is named'}; known: {', '.join(team)}")
        return Restorer([team[name] for name in wanted or team], select=wanted is None)

    @app.post("/v1/restore", responses={200: {"content": {NDJSON: {}}}, 400: {}, 413: {}, 429: {}, 504: {}})
    async def restore(request: RestoreRequest, http: Request) -> Response:
        """Restore a document. With ``Accept: application/x-ndjson``, lines of progress come first, then the result."""
        work = restorer_for(request), request.content(settings.max_bytes), request.options(settings)
        if NDJSON in http.headers.get("accept", ""):
            return StreamingResponse(lines(request, *work), media_type=NDJSON)
        try:
            async with aclosing(jobs.stream(*work)) as stream:
                async for one in stream:
                    if isinstance(one, Restoration):
                        content = await to_thread.run_sync(request.finished, one)
                        return Response(dump(content), media_type="application/json")
                    if await http.is_disconnected():
                        break
        except (BusyError, TooSlowError) as error:
            raise HTTPException(STATUS[type(error)], str(error)) from error
        return Response(status_code=499)  # the client has disconnected

    async def lines(
        request: RestoreRequest, restorer: Restorer, document: str | bytes, options: dict[str, Any]
    ) -> AsyncIterator[bytes]:
        try:
            async with aclosing(jobs.stream(restorer, document, options)) as stream:
                async for one in stream:
                    if isinstance(one, Restoration):
                        yield dump({"result": await to_thread.run_sync(request.finished, one)})
                    else:
                        yield dump({"doing": one[0], "share": round(one[1], 4)})
        except tuple(STATUS) as error:
            yield dump({"error": str(error), "status": STATUS[type(error)], **particulars(error)})

    @app.post("/v1/damage")
    async def damage_document(request: DamageRequest) -> Damaged:
        """Replace random bytes of a clean document by U+FFFD."""
        document = request.content(settings.max_bytes)
        data = document.encode("utf-8", "replace") if isinstance(document, str) else document
        try:
            damaged = damage(data, request.rate, burst=request.burst, seed=request.seed)
        except ConservatorError as error:
            raise HTTPException(400, error.problem) from error  # a request names no mark
        return Damaged(data=base64.b64encode(damaged).decode())

    @app.post("/v1/read")
    def read(request: ReadRequest) -> File:
        """The text of a file in UTF-8, and its encoding; a file that is not text is refused, and named."""
        if len(request.data) > settings.max_bytes:
            raise HTTPException(
                413, f"{request.name} has {len(request.data)} bytes; at most {settings.max_bytes} are read here"
            )
        source = read_source(request.data, request.encoding, name=request.name, signs=(request.mark, request.gap))
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
    async def report(request: ReportRequest) -> Response:
        """The report of a restoration, one HTML file."""
        headers = {"Content-Disposition": 'attachment; filename="report.html"'}
        try:
            page = as_page(request.record, request.title).encode()
        except ValueError as error:  # nan, infinity or half a surrogate pair, which cannot be written
            raise HTTPException(400, f"the record cannot be written: {error}") from error
        return Response(page, media_type="text/html", headers=headers)

    @app.get("/v1/experts")
    async def experts() -> list[dict[str, Any]]:
        """The experts that a request may choose among."""
        return [
            {"name": name, "reads": one.spec.max_length, "parameters": getattr(one, "parameters", None)}
            for name, one in team.items()
        ]

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """The status of the server, and how many restorations run or wait."""
        return {"status": "ok", "version": conservator.__version__, "restorations": jobs.admitted}

    @app.exception_handler(ConservatorError)
    async def bad_input(_: Request, error: ConservatorError) -> Response:
        return Escaped({"detail": str(error), **particulars(error)}, STATUS[type(error)])

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return Escaped({"detail": error.detail}, error.status_code)

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


@contextmanager
def previous_as_error() -> Iterator[None]:
    """Refuse a previous record that is none, or that is of another document."""
    try:
        yield
    except ConservatorError:
        raise
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise ConservatorError("previous is no record of this document; leave it out") from error


def particulars(error: Exception) -> dict[str, Any]:
    """What an error is about, for a page that has other names for the options."""
    if not isinstance(error, ConservatorError):
        return {}
    found: dict[str, Any] = {"problem": error.problem, "advice": [one._asdict() for one in error.advice]}
    return {**found, "option": error.option} if isinstance(error, OptionError) else found


class Escaped(JSONResponse):
    """JSON in ASCII, because an error message may quote half a surrogate pair, which has no UTF-8."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return json.dumps(content).encode()


def dump(value: dict[str, Any]) -> bytes:
    """A line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
