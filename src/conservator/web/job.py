"""What a process of the server does with a request: it restores the document, or a part of it again."""

from typing import Any

from conservator.experts import load_experts
from conservator.options import DEFAULTS, REPORT_ALTERNATIVES, RestoreOptions
from conservator.restorer import Restorer, as_input_text
from conservator.results import Record, Renewal, Restoration, as_record, plan_renewal, renew
from conservator.web.config import ServerConfig
from conservator.web.requests import RestoreRequest, previous_as_error
from conservator.web.worker import Tell, dump

WARM = "A small document, in which a letter is l\ufffdst."


class Restoring:
    """The experts of a server, loaded once; see ``Work``."""

    def __init__(self, settings: ServerConfig) -> None:
        """Load the experts."""
        self.settings = settings
        self.team = {expert.spec.name: expert for expert in load_experts(settings.experts)}
        self.offered = [
            {"name": name, "reads": one.spec.max_length, "parameters": getattr(one, "parameters", None)}
            for name, one in self.team.items()
        ]

    def warm(self) -> None:
        """Restore a small document."""
        self(RestoreRequest.model_validate({"text": WARM}), lambda doing, share: None)

    def __call__(self, request: RestoreRequest, tell: Tell) -> bytes:
        """Restore a document, or, with the record before the last choices, what is near these."""
        wanted, renewal = request.experts_wanted(list(self.team)), plan(request)
        restorer = Restorer([self.team[name] for name in wanted or self.team], select=wanted is None)
        options = options_of(request, renewal, self.settings)
        # As text also if it is a file of an OCR engine: the record and its choices speak of the bytes that were sent.
        source = as_input_text(request.content(self.settings), source_options(request))
        found = restorer.restore(source, progress=tell, **options)
        return dump(finished(request, renewal, found))


def source_options(request: RestoreRequest) -> RestoreOptions:
    """The options that tell how the bytes of a document are read."""
    chosen = request.model_dump(include={"mark", "gap", "channel", "encoding"})
    return RestoreOptions(**chosen, lost=request.loss())


def plan(request: RestoreRequest) -> Renewal | None:
    """What of the previous record is restored again; None if there is none."""
    if request.previous is None:
        return None
    with previous_as_error():
        return plan_renewal(request.previous, request.fixed())


def options_of(request: RestoreRequest, renewal: Renewal | None, settings: ServerConfig) -> dict[str, Any]:
    """The options and the references as a restorer takes them."""
    chosen = request.model_dump(exclude={"text", "data", "experts", "references", "choices", "previous"})
    chosen.update(references=request.reference_texts(settings), lost=request.loss(), max_seconds=settings.max_seconds)
    chosen["fixed"] = request.fixed() if renewal is None else renewal.fixed
    request.check_size(chosen["fixed"], settings)
    if chosen["alternatives"] is None:
        marked = request.channel == DEFAULTS.channel
        chosen["alternatives"] = REPORT_ALTERNATIVES if marked else DEFAULTS.alternatives
    return chosen


def finished(request: RestoreRequest, renewal: Renewal | None, found: Restoration) -> Record:
    """The record of the restored document, and its text."""
    record = as_record(found)
    if renewal is not None and request.previous is not None:
        with previous_as_error():
            record = renew(request.previous, record, renewal)
    return {**record, "text": "".join(piece["text"] for piece in record["pieces"])}
