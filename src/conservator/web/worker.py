"""Worker process of the server: it handles one request after the other."""

import json
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from conservator.errors import ConservatorError, TooSlowError
from conservator.system.processes import Problem, find_factory
from conservator.web.config import ServerConfig
from conservator.web.requests import RefusedError, RestoreRequest

ExpertInfo = list[dict[str, Any]]  # name, maximal input length and number of parameters of each expert
OnProgress = Callable[[str, float], None]  # called with the stage and the fraction of it that is done
PROGRESS_SECONDS = 0.1  # seconds: interval of progress reports within a stage [untuned]


class StoppedError(Exception):
    """The client has disconnected."""


class RequestHandler(Protocol):
    """Handler of the requests of a worker; ``ServerConfig.factory`` names its class."""

    expert_info: ExpertInfo

    def warm_up(self) -> None:
        """Prepare for the first request, so that it is as fast as later ones."""
        ...

    def __call__(self, request: RestoreRequest, on_progress: OnProgress) -> bytes:
        """Return the response as a line of JSON; exceptions of ``on_progress`` stop the work."""
        ...


def run_worker(connection: Connection, config: ServerConfig) -> None:
    """Send the experts or a Problem, then handle requests until the server ends.

    During a request, (stage, fraction) is sent repeatedly, then the response or a RefusedError. Any message that is
    received during a request stops it.
    """
    try:
        handler: RequestHandler = find_factory(config.factory)(config)
    except ConservatorError as error:
        connection.send(Problem.of(error))
        return
    connection.send(handler.expert_info)
    handler.warm_up()
    while True:
        request = connection.recv()
        if request is not None:  # None asks to stop a request that has ended by now
            connection.send(handle(handler, request, connection))


def handle(handler: RequestHandler, request: RestoreRequest, connection: Connection) -> bytes | RefusedError:
    """Return the response to a request, or a RefusedError."""
    last_stage, last_time = "", 0.0

    def on_progress(stage: str, fraction: float) -> None:
        nonlocal last_stage, last_time
        if connection.poll():
            raise StoppedError
        now = time.monotonic()
        if stage != last_stage or now - last_time >= PROGRESS_SECONDS:
            last_stage, last_time = stage, now
            connection.send((stage, fraction))

    try:
        return handler(request, on_progress)
    except RefusedError as error:
        return error
    except StoppedError:
        return RefusedError(499, "the restoration was cancelled")
    except ConservatorError as error:
        return RefusedError.of(error, 504 if isinstance(error, TooSlowError) else 400)
    except Exception as error:  # a defect must not end the worker
        traceback.print_exc()
        return RefusedError(500, f"internal error: {type(error).__name__}: {error}")


def dump(value: dict[str, Any]) -> bytes:
    """Encode a value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
