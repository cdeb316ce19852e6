"""A process of the server, which restores one document after the other."""

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

Offered = list[dict[str, Any]]  # of each expert its name, how much it reads at once, and its parameters
Tell = Callable[[str, float], None]  # is told what is being done, and which share of it is done
OFTEN = 0.1  # seconds between two reports of progress within a stage


class StoppedError(Exception):
    """Nobody waits for the result any more."""


class Work(Protocol):
    """What a process does; a stand-in for it can be named in the settings."""

    offered: Offered

    def warm(self) -> None:
        """Get ready for the first request, so that it takes no longer than others."""
        ...

    def __call__(self, request: RestoreRequest, tell: Tell) -> bytes:
        """The answer to a request, as a line of JSON; what ``tell`` raises ends the work."""
        ...


def serve(connection: Connection, settings: ServerConfig) -> None:
    """Say which experts there are, or what is wrong with them; then answer every request, until the server is gone.

    While it works on a request, (stage, share) is sent again and again. At last comes the answer, or why there is none.
    If anything is sent meanwhile, the work is stopped.
    """
    try:
        work: Work = find_factory(settings.factory)(settings)
    except ConservatorError as error:
        connection.send(Problem.of(error))
        return
    connection.send(work.offered)
    work.warm()
    while True:
        request = connection.recv()
        if request is not None:  # else it should stop, and has done so by now
            connection.send(answer(work, request, connection))


def answer(work: Work, request: RestoreRequest, connection: Connection) -> bytes | RefusedError:
    """The answer to a request, or why there is none."""
    last = ("", 0.0)

    def tell(doing: str, share: float) -> None:
        nonlocal last
        if connection.poll():
            raise StoppedError
        now = time.monotonic()
        if doing != last[0] or now - last[1] >= OFTEN:
            last = doing, now
            connection.send((doing, share))

    try:
        return work(request, tell)
    except RefusedError as error:
        return error
    except StoppedError:
        return RefusedError(499, "it was stopped")
    except ConservatorError as error:
        return RefusedError.of(error, 504 if isinstance(error, TooSlowError) else 400)
    except Exception as error:  # a fault of ours, which must not end the process
        traceback.print_exc()
        return RefusedError(500, f"unexpected {type(error).__name__}: {error}")


def dump(value: dict[str, Any]) -> bytes:
    """A line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
