"""Handler of restoration requests in a worker: restores a document, or the surroundings of changed fixed texts."""

from typing import Any

from conservator.documents.damaged import WARMUP_TEXT
from conservator.execution import OnProgress
from conservator.experts import load_experts
from conservator.options import DEFAULTS, REPORT_ALTERNATIVES, RestoreOptions
from conservator.restorer import Restorer, as_input_text
from conservator.results import Record, Renewal, Restoration, as_record, plan_renewal, renew
from conservator.web.config import ServerConfig
from conservator.web.requests import RestoreRequest, previous_as_error
from conservator.web.worker import dump


class RestoreHandler:
    """The experts of a server, loaded once; handles requests."""

    def __init__(self, config: ServerConfig) -> None:
        """Load the experts."""
        self.config = config
        self.experts = {expert.spec.name: expert for expert in load_experts(config.experts)}
        self.expert_info = [
            {"name": name, "reads": expert.spec.max_length, "parameters": getattr(expert, "parameters", None)}
            for name, expert in self.experts.items()
        ]

    def warm_up(self) -> None:
        """Restore a small document."""
        self(RestoreRequest.model_validate({"text": WARMUP_TEXT}), lambda stage, fraction: None)

    def __call__(self, request: RestoreRequest, on_progress: OnProgress) -> bytes:
        """Restore a document; with a previous record, only the surroundings of fixed texts that changed."""
        names, renewal = request.selected_experts(list(self.experts)), plan(request)
        restorer = Restorer([self.experts[name] for name in names or self.experts], select=names is None)
        options = restore_options(request, renewal, self.config)
        # An OCR file is restored as text, too: spans in the record refer to the bytes of the request.
        source = as_input_text(request.content(self.config), source_options(request))
        restoration = restorer.restore(source, progress=on_progress, **options)
        return dump(make_record(request, renewal, restoration))


def source_options(request: RestoreRequest) -> RestoreOptions:
    """Return the options that determine how the bytes of a document are read."""
    values = request.model_dump(include={"mark", "gap", "channel", "encoding"})
    return RestoreOptions(**values, lost=request.lost_unit())


def plan(request: RestoreRequest) -> Renewal | None:
    """Return which parts of the previous record are restored again; None without a previous record."""
    if request.previous is None:
        return None
    with previous_as_error():
        return plan_renewal(request.previous, request.fixed_texts())


def restore_options(request: RestoreRequest, renewal: Renewal | None, config: ServerConfig) -> dict[str, Any]:
    """Return the options and the references as keyword arguments of ``Restorer.restore``."""
    options = request.model_dump(exclude={"text", "data", "experts", "references", "choices", "previous"})
    references = request.reference_texts(config)
    options.update(references=references, lost=request.lost_unit(), max_seconds=config.max_seconds)
    options["fixed"] = request.fixed_texts() if renewal is None else renewal.fixed
    request.check_size(options["fixed"], config)
    if options["alternatives"] is None:
        has_marks = request.channel == DEFAULTS.channel
        options["alternatives"] = REPORT_ALTERNATIVES if has_marks else DEFAULTS.alternatives
    return options


def make_record(request: RestoreRequest, renewal: Renewal | None, restoration: Restoration) -> Record:
    """Return the record of the restored document, with its text."""
    record = as_record(restoration)
    if renewal is not None and request.previous is not None:
        with previous_as_error():
            record = renew(request.previous, record, renewal)
    return {**record, "text": "".join(piece["text"] for piece in record["pieces"])}
