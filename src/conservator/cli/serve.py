"""``conservator serve``: the page, on this machine."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Threads
from conservator.errors import ConservatorError
from conservator.options import EXPERTS
from conservator.system.processes import available_cores

EXAMPLES = (
    "Examples:\n\n"
    "  conservator serve\n\n"
    "  conservator serve --port 9000 --experts prose,./notes\n\n"
    "  curl -s localhost:8000/v1/restore -H 'Content-Type: application/json' -d '{\"text\": \"one mark: \ufffd\"}'\n\n"
    "Exit codes: 0 stopped (Ctrl-C, SIGTERM), 2 bad usage, 3 no such expert, or nobody can listen there."
)


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other machines can reach it only if it is not loopback.")
    ] = "127.0.0.1",
    experts: Annotated[
        str, typer.Option(help="Experts to offer: built-in names, folders or hf: models, with commas between.")
    ] = ",".join(EXPERTS),
    max_bytes: Annotated[
        int, typer.Option(min=1, help="The largest document, and the most that files like it may have together.")
    ] = 1_000_000,
    max_seconds: Annotated[
        float, typer.Option(min=1, help="The longest time for one document; what was reached by then is the result.")
    ] = 600,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes; each restores one document.")] = 1,
    queue_size: Annotated[int, typer.Option(min=0, help="Requests that may wait for a worker; more are refused.")] = 8,
    threads: Threads = None,
) -> None:
    """Serve a page to restore documents on, and a JSON API under it; on this machine alone unless told otherwise."""
    try:
        from conservator.web.queue import RestorationQueue
        from conservator.web.server import Server
    except ImportError as error:
        raise ConservatorError(f"{error.name} is not installed; pip install 'conservator[web]' brings it") from error
    from conservator.web.config import ServerConfig
    from conservator.web.guard import is_loopback

    asked = os.environ.get("OMP_NUM_THREADS", "")
    each = max(1, int(asked)) if asked.isdecimal() else max(1, available_cores() // workers)
    settings = ServerConfig(experts, host, max_bytes, max_seconds, workers, queue_size, threads=each)
    with ending_well(), listen(host, port) as listener, RestorationQueue(settings) as jobs:
        server = Server(settings, jobs)
        shown = f"[{host}]" if ":" in host else host
        messages.print(f"http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)", soft_wrap=True)
        if not is_loopback(host):
            messages.print("other machines can reach it: it has no passwords", soft_wrap=True)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address: who comes before the server is ready waits for it."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, TypeError, ValueError) as error:  # TypeError: for a zero in the name
        listener.close()
        why = error.strerror if isinstance(error, OSError) else "this is no name of a machine"
        raise ConservatorError(f"cannot listen on {host}, port {port}: {why}") from error
    return listener


@contextmanager
def ending_well() -> Iterator[None]:
    """SIGTERM ends the program with exit code 0; uvicorn raises it again when it has stopped."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
