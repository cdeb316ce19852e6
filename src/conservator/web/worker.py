"""Handler of requests in a worker of the server: it converts errors into responses."""

import json
import traceback
from typing import Any

from conservator.errors import ConservatorError, TooSlowError
from conservator.execution import OnProgress, find_factory
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest

ExpertInfo = list[dict[str, Any]]  # name, maximal input length and number of parameters of each expert


class Responder:
    """Calls the handler of ``ServerConfig.factory``, and returns its errors as RefusedErrors.

    The handler returns the response to a request as a line of JSON, and has ``expert_info`` and ``warm_up``.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Make the handler."""
        self.handler = find_factory(config.factory)(config)
        self.information: ExpertInfo = self.handler.expert_info
        self.warm_up = self.handler.warm_up

    def __call__(self, request: RestoreRequest, on_progress: OnProgress) -> bytes | RefusedError:
        """Return the response to a request, or a RefusedError."""
        try:
            response: bytes = self.handler(request, on_progress)
            return response
        except RefusedError as error:
            return error
        except ConservatorError as error:
            return RefusedError.of(error, 504 if isinstance(error, TooSlowError) else 400)
        except Exception as error:  # a defect must not end the worker
            traceback.print_exc()
            return RefusedError(500, f"internal error: {type(error).__name__}: {error}")


def dump(value: dict[str, Any]) -> bytes:
    """Encode a value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
