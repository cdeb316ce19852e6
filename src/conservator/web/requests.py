"""What the API is sent: documents with options, and what is refused of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

from conservator.errors import ConservatorError, OptionError
from conservator.options import (
    DEFAULTS,
    ENCODING,
    EXAMPLES,
    LOST,
    MAX_GAP_BYTES,
    MAX_SEED,
    REPORT_ALTERNATIVES,
    are_marks_characters,
)
from conservator.web.config import ServerConfig

LONGEST_SIGN = 64  # characters of a mark or a gap sign
LONGEST_NAME = 200  # characters of the name of a reference


class RefusedError(Exception):
    """A request that is not done.

    Attributes:
        status: of HTTP.
        detail: why, in words.
        more: what the error is about, for a page that has other names for the options.
        later: after how many seconds it may be tried again; None if that would not help.
    """

    def __init__(self, status: int, detail: str, more: dict[str, Any] | None = None, later: int | None = None) -> None:
        """Refuse a request."""
        super().__init__(status, detail, more, later)
        self.status, self.detail, self.more, self.later = status, detail, more or {}, later

    @classmethod
    def of(cls, error: ConservatorError, status: int = 400) -> "RefusedError":
        """What is wrong with a document or an option."""
        more: dict[str, Any] = {"problem": error.problem, "advice": [one._asdict() for one in error.advice]}
        if isinstance(error, OptionError):
            more["option"] = error.option
        return cls(status, str(error), more)


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

    def content(self, settings: ServerConfig) -> str | bytes:
        """The document, if it is not larger than the settings allow."""
        found = self.data if self.text is None else self.text
        size = len(found) if isinstance(found, bytes) else len((found or "").encode("utf-8", "surrogatepass"))
        if size > settings.max_bytes:
            raise RefusedError(413, f"the document has {size} bytes; at most {settings.max_bytes} are restored here")
        return found or ""


class Reference(BaseModel):
    """A text like the document."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    text: str

    def size(self) -> int:
        """How many bytes the text has; a text that is none is refused."""
        if "\0" in self.text:
            raise RefusedError(400, f"the reference {self.name} is a binary file: it holds a zero byte")
        try:
            return len(self.text.encode())
        except UnicodeEncodeError as error:
            raise RefusedError(400, f"the reference {self.name} is no text: it holds a lone surrogate") from error


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
    max_gap: int = Field(DEFAULTS.max_gap, ge=1, le=MAX_GAP_BYTES)
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
    min_gap_confidence: float = Field(
        DEFAULTS.min_gap_confidence,
        ge=0,
        le=1,
        description="A gap of unknown length whose best fill is less probable than this, as a whole, stays open.",
    )
    fill_undetermined: bool = Field(
        DEFAULTS.fill_undetermined,
        description="Whether marks are filled in, too, that the visible text does not determine.",
    )
    alternatives: int | None = Field(
        None, ge=0, le=20, description=f"{REPORT_ALTERNATIVES} where marks show what is lost, else none, by default."
    )
    seed: int = Field(DEFAULTS.seed, ge=0, le=MAX_SEED)

    encoding: str | None = Field(
        DEFAULTS.encoding, max_length=64, description="Of data; told by the bytes, by default."
    )
    memory: bool = Field(DEFAULTS.memory, description="Whether text of the document and of references is recalled.")
    references: list[Reference] = Field([], description="References: undamaged texts like the document.")

    choices: list[Choice] = Field([], description="What a reader knows to stand in lost places.")
    previous: dict[str, Any] | None = Field(
        None,
        description="The record of this document before the last choices: what is far from them then stays as it was, "
        "and the experts and what is lost are those of the record.",
    )

    @model_validator(mode="after")
    def remembered_or_none(self) -> "RestoreRequest":
        """Refuse references that no memory would read."""
        if self.references and not self.memory:
            raise ValueError("references: the memory reads these texts, and memory is false")
        return self

    def reference_texts(self, settings: ServerConfig) -> list[tuple[str, str]]:
        """The names and texts of the references, if there are not more than the settings allow."""
        if len(self.references) > settings.max_references:
            raise RefusedError(
                413, f"there are {len(self.references)} references; at most {settings.max_references} are read here"
            )
        size = sum(one.size() for one in self.references)
        if size > settings.max_bytes:
            raise RefusedError(
                413, f"the references have {size} bytes together; at most {settings.max_bytes} are read here"
            )
        return [(one.name, one.text) for one in self.references]

    def fixed(self) -> list[tuple[int, int, str]]:
        """The choices, in order."""
        return sorted((*one.origin, one.text) for one in self.choices)

    def check_size(self, fixed: Sequence[tuple[int, int, str]], settings: ServerConfig) -> None:
        """Refuse a document that is larger than the settings allow once the known text stands in it."""
        content = self.content(settings)
        size = len(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        size += sum(len(text.encode("utf-8", "surrogatepass")) - (stop - start) for start, stop, text in fixed)
        if size > settings.max_bytes:
            raise RefusedError(
                413, f"the document has {size} bytes with its choices; at most {settings.max_bytes} are restored here"
            )

    def loss(self) -> str:
        """What is lost, as it was asked for, or as the previous record says: choices must not change it."""
        if self.previous is None:
            return self.lost
        with previous_as_error():
            return str(self.previous["lost"])

    def experts_wanted(self, fixed: Sequence[str]) -> list[str] | None:
        """The experts that are named, or those of the previous record; None where all may have a say, or none has."""
        wanted = self.experts
        if self.previous is not None:
            if are_marks_characters(self.loss()):
                return None
            with previous_as_error():
                memory = self.previous["memory"]
                wanted = [str(name) for number, name in enumerate(self.previous["experts"]) if number != memory]
        unknown = [name for name in wanted or [] if name not in fixed]
        if unknown or wanted == []:
            raise RefusedError(400, f"no expert {', '.join(unknown) or 'is named'}; known: {', '.join(fixed)}")
        return wanted

    def check(self, settings: ServerConfig, fixed: Sequence[str]) -> None:
        """Refuse what can be refused before anybody waits for it."""
        self.check_size(self.fixed(), settings)
        self.reference_texts(settings)
        self.experts_wanted(fixed)


class DamageRequest(Document):
    """A document to damage, and the options of ``conservator damage``."""

    rate: float = Field(0.1, ge=0, le=1)
    burst: int = Field(1, ge=1, le=1000)
    seed: int = Field(DEFAULTS.seed, ge=0, le=MAX_SEED)


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


class DamageResponse(BaseModel):
    """A damaged document, as bytes in base64, because it may contain half a character."""

    data: str


class ReportRequest(BaseModel):
    """The record that ``/v1/restore`` returned, to be made into a report."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field("Restored document", max_length=200)
    record: dict[str, Any]


@contextmanager
def previous_as_error() -> Iterator[None]:
    """Refuse a previous record that is none, or that is of another document."""
    try:
        yield
    except ConservatorError:
        raise
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise ConservatorError("previous is no record of this document; leave it out") from error
