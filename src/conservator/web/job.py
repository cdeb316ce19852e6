"""Handler of restoration requests in a worker: restores a document, or the surroundings of changed fixed texts."""

import base64
from dataclasses import replace

from conservator.document import open_document
from conservator.documents import encode_text
from conservator.documents.damaged import WARMUP_TEXT
from conservator.execution import OnProgress
from conservator.experts import load_experts
from conservator.options import DEFAULTS, REPORT_ALTERNATIVES
from conservator.restorer import Restorer
from conservator.results import plan_renewal, renew
from conservator.web.config import ServerConfig
from conservator.web.requests import RestoreRequest
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
        """Restore a document; with a previous record, only the surroundings of fixed texts that changed.

        The response is the record with the text and ``data``, the restored document in the format and the encoding of
        the request.
        """
        config, previous, fixed = self.config, request.previous_record, request.fixed_texts()
        renewal = None if previous is None else plan_renewal(previous, fixed)
        if renewal is not None:
            fixed = list(renewal.fixed)
        request.check_size(fixed, config)
        options = request.options(config)
        document = open_document(request.content(config), options, read_scans=False)
        options = document.select_channel(options)
        if request.alternatives is None and options.channel == DEFAULTS.channel:
            options = replace(options, alternatives=REPORT_ALTERNATIVES)
        names = request.selected_experts(list(self.experts))
        restorer = Restorer([self.experts[name] for name in names or self.experts], options, select=names is None)
        references = request.reference_texts(config)
        restoration = restorer.restore(document, references=references, fixed=fixed, progress=on_progress)
        record = restoration.record
        if previous is not None and renewal is not None:
            record = renew(previous, record, renewal)
        # Spans that were not restored again may be unfilled in the record, but are fixed in the restoration.
        data = document.encode(restoration) if renewal is None else encode_text(record.text, document.encoding)[0]
        return dump({**record.to_dict(), "data": base64.b64encode(data).decode()})
