"""Requests and responses of the API, and their validation."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, create_model, model_validator

from conservator.errors import ConservatorError, OptionError
from conservator.options import MAX_TEXT_CHARS, OPTIONS, Option, RestoreOptions, are_marks_characters
from conservator.results import Record
from conservator.web.config import ServerConfig

SURFACE = "web"
Marker = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]  # text that stands for lost text
MAX_NAME_CHARS = 200  # characters: length of the name of a file [safety limit]


class RefusedError(Exception):
    """A request that the server does not execute.

    Attributes:
        status: HTTP status.
        detail: error message.
        fields: further fields of the error response, such as the option that is invalid.
        retry_after: seconds after which the client can try again; None if that does not help.
    """

    def __init__(
        self, status: int, detail: str, fields: dict[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        """Create an error."""
        super().__init__(status, detail, fields, retry_after)
        self.status, self.detail, self.fields, self.retry_after = status, detail, fields or {}, retry_after

    @classmethod
    def of(cls, error: ConservatorError, status: int = 400) -> "RefusedError":
        """Convert an error about a document or an option."""
        fields: dict[str, Any] = {"problem": error.problem, "advice": [advice._asdict() for advice in error.advice]}
        if isinstance(error, OptionError):
            fields["option"] = error.option
        return cls(status, str(error), fields)


class Document(BaseModel):
    """A document, as text or as bytes."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, description="The document as text; give either text or data.")
    data: Base64Bytes | None = Field(None, description="The document as bytes in base64; give either text or data.")

    @model_validator(mode="after")
    def text_or_data(self) -> "Document":
        """Require exactly one of text and data."""
        if (self.text is None) == (self.data is None):
            raise ValueError("exactly one of text and data is required")
        return self

    def content(self, config: ServerConfig) -> str | bytes:
        """Return the document; raise an error if it is too large."""
        content = self.data if self.text is None else self.text
        size = len(content) if isinstance(content, bytes) else len((content or "").encode("utf-8", "surrogatepass"))
        if size > config.max_bytes:
            raise RefusedError(
                413, f"the document is too large: it has {size} bytes, the limit is {config.max_bytes} bytes"
            )
        return content or ""


class Reference(BaseModel):
    """A reference: an undamaged text that is similar to the document."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS, description="Name of the file, for the result.")
    text: str = Field(description="Content of the file.")

    def size(self) -> int:
        """Return the number of bytes of the text; raise an error if it is not valid text."""
        if "\0" in self.text:
            raise RefusedError(400, f"the reference {self.name} is a binary file: it contains a zero byte")
        try:
            return len(self.text.encode())
        except UnicodeEncodeError as error:
            raise RefusedError(
                400, f"the reference {self.name} is not valid text: it contains a lone surrogate"
            ) from error


class FixedText(BaseModel):
    """Text that the user supplies for a lost span."""

    model_config = ConfigDict(extra="forbid")

    origin: tuple[int, int] = Field(
        description="Start and end of the lost span in bytes of the damaged document, as in the record."
    )
    text: str = Field(min_length=1, description="Text of the span.")


def option_field(option: Option) -> tuple[Any, Any]:
    """Return the type and the ``pydantic.Field`` of an option in a request."""
    value_type: Any = Literal[option.choices] if option.choices else option.type
    if option.is_sequence:
        value_type = tuple[Annotated[str, Field(min_length=1, max_length=option.max_item_chars)], ...]
    if option.is_repeatable:
        value_type = Marker | tuple[Marker, ...]
    default = None if SURFACE in option.automatic else option.default
    shown_default = option.describe_default(SURFACE)
    description = option.help if shown_default == str(option.default) else f"{option.help} Default: {shown_default}."
    is_number = option.type in (int, float)
    is_text = option.type is str and not option.choices and not option.is_repeatable
    field = Field(
        default,
        ge=option.min,
        gt=0 if option.is_positive else None,
        le=option.upper_bound(SURFACE) if is_number else None,
        min_length=1 if is_text else None,
        max_length=None if is_number or option.is_repeatable else option.limits.get(SURFACE),
        pattern=option.web_pattern,
        description=description,
    )
    return (value_type | None if option.is_optional or default is None else value_type), field


FIELDS: dict[str, Any] = {
    name: option_field(option) for name, option in OPTIONS.items() if SURFACE not in option.excluded
}
if TYPE_CHECKING:

    class OptionFields(Document):
        """A document, and the options of a restoration."""

        def __getattr__(self, name: str) -> Any:
            """Return the value of an option."""
else:
    OptionFields = create_model("OptionFields", __base__=Document, **FIELDS)


class RestoreRequest(OptionFields):
    """A document to restore, and the options of a restoration."""

    experts: list[str] | None = Field(
        None,
        description="Names of the experts to use, from GET /v1/experts; by default selected for the document.",
    )
    references: list[Reference] = Field([], description="Reference files: undamaged texts similar to the document.")

    choices: list[FixedText] = Field([], description="Texts that the user supplies for lost spans.")
    previous: dict[str, Any] | None = Field(
        None,
        description="Record of this document with other choices. Only the surroundings of changed choices are restored "
        "again; the experts and the option lost are those of the record.",
    )

    @model_validator(mode="after")
    def references_need_memory(self) -> "RestoreRequest":
        """Refuse references without memory, which would not be used."""
        if self.references and not self.memory:
            raise ValueError("references need memory, but memory is false; set it to true or omit the references")
        return self

    def reference_texts(self, config: ServerConfig) -> list[tuple[str, str]]:
        """Return the names and texts of the references; raise an error if they are too many or too large."""
        if len(self.references) > config.max_references:
            raise RefusedError(
                413, f"too many references: got {len(self.references)}, the limit is {config.max_references}"
            )
        size = sum(reference.size() for reference in self.references)
        if size > config.max_bytes:
            raise RefusedError(
                413, f"the references are too large: together {size} bytes, the limit is {config.max_bytes} bytes"
            )
        return [(reference.name, reference.text) for reference in self.references]

    def fixed_texts(self) -> list[tuple[int, int, str]]:
        """Return the choices as ``(start, stop, text)``, sorted."""
        return sorted((*choice.origin, choice.text) for choice in self.choices)

    def check_size(self, fixed_texts: Sequence[tuple[int, int, str]], config: ServerConfig) -> None:
        """Raise an error if the document is too large with its fixed texts."""
        content = self.content(config)
        size = len(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        size += sum(len(text.encode("utf-8", "surrogatepass")) - (stop - start) for start, stop, text in fixed_texts)
        if size > config.max_bytes:
            raise RefusedError(
                413,
                f"the document is too large: it has {size} bytes with its choices, "
                f"the limit is {config.max_bytes} bytes",
            )

    @cached_property
    def previous_record(self) -> Record | None:
        """The previous record, validated; None without one."""
        if self.previous is None:
            return None
        try:
            return Record.from_dict(self.previous)
        except ConservatorError as error:
            raise ConservatorError(f"previous is not a record of this document, omit it: {error}") from error

    def options(self, config: ServerConfig) -> RestoreOptions:
        """Return the options of the restoration; choices must not change what a mark stands for."""
        options = {name: getattr(self, name) for name in FIELDS}
        if self.previous_record is not None:
            options["lost"] = self.previous_record.lost
        if self.alternatives is None:
            del options["alternatives"]
        return RestoreOptions(**options, max_seconds=config.max_seconds, language_models=config.language_models)

    def selected_experts(self, available: Sequence[str]) -> list[str] | None:
        """Return the names of the experts in the request or in the previous record.

        None selects the experts for the document; it is also returned if marks are characters.
        """
        names = self.experts
        if self.previous_record is not None:
            if are_marks_characters(self.previous_record.lost):
                return None
            names = [name for name in self.previous_record.experts if name in available]
        unknown = [name for name in names or [] if name not in available]
        if unknown:
            raise RefusedError(400, f"unknown expert {', '.join(unknown)}; available: {', '.join(available)}")
        if names == []:
            raise RefusedError(400, f"experts must name at least one expert; available: {', '.join(available)}")
        return names

    def check(self, config: ServerConfig, available: Sequence[str]) -> None:
        """Raise an error for a request that is invalid; called before the request is queued."""
        self.check_size(self.fixed_texts(), config)
        self.reference_texts(config)
        if self.previous is None:  # the worker validates a previous record, because this takes time
            self.selected_experts(available)


class DamageRequest(Document):
    """A document to damage, and the options of ``conservator damage``."""

    rate: float = Field(0.1, ge=0, le=1, description="Fraction of the bytes to lose.")
    burst: int = Field(1, ge=1, le=1000, description="Length of each lost span, in bytes.")
    seed: int = FIELDS["seed"][1]


class ReadRequest(BaseModel):
    """A text file or an OCR file to convert to text."""

    model_config = ConfigDict(extra="forbid")

    data: Base64Bytes = Field(description="The file as bytes in base64.")
    name: str = Field("the document", max_length=MAX_NAME_CHARS, description="Name of the file, for error messages.")
    encoding: str | None = FIELDS["encoding"][1]
    mark: str = FIELDS["mark"][1]
    gap: Marker | tuple[Marker, ...] | None = FIELDS["gap"][1]


class WriteRequest(BaseModel):
    """A text to convert to an encoding."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="The text.")
    encoding: str = Field(max_length=MAX_TEXT_CHARS, description="Encoding of the response.")


class File(BaseModel):
    """A file as bytes in base64, and an encoding.

    ``/v1/read`` returns the text in UTF-8, and the encoding of the file; ``/v1/write`` returns the text in
    ``encoding``.
    """

    data: str = Field(description="Bytes in base64.")
    encoding: str = Field(description="Name of the encoding.")
    format: str | None = Field(None, description="Format of an OCR file, such as hOCR; null for a text file.")


class DamageResponse(BaseModel):
    """A damaged document."""

    data: str = Field(description="Bytes in base64, because the document may contain incomplete characters.")


class ReportRequest(BaseModel):
    """A record to convert to a report."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field("Restored document", max_length=200, description="Title of the report.")
    record: dict[str, Any] = Field(description="Response of /v1/restore.")
