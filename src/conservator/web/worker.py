"""Handler of requests in a worker of the server: it converts errors into responses."""

import json
import traceback
from typing import Any, Protocol

from conservator.errors import ConservatorError, TooSlowError
from conservator.execution import OnProgress, find_factory
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest

ExpertInfo = list[dict[str, Any]]  # name, maximal input length and number of parameters of each expert


class RequestHandler(Protocol):
    """Handler of the requests of a worker; ``ServerConfig.factory`` names its class."""

    expert_info: ExpertInfo

    def warm_up(self) -> None:
        """Prepare for the first request, so that it is as fast as later ones."""
        ...

    def __call__(self, request: RestoreRequest, on_progress: OnProgress) -> bytes:
        """Return the response as a line of JSON; exceptions of ``on_progress`` stop the work."""
        ...


class Responder:
    """Calls a ``RequestHandler``, and returns its errors as RefusedErrors; ``information`` lists its experts."""

    def __init__(self, config: ServerConfig) -> None:
        """Make the handler."""
        self.handler: RequestHandler = find_factory(config.factory)(config)
        self.information, self.warm_up = self.handler.expert_info, self.handler.warm_up

    def __call__(self, request: RestoreRequest, on_progress: OnProgress) -> bytes | RefusedError:
        """Return the response to a request, or a RefusedError."""
        try:
            return self.handler(request, on_progress)
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
