"""``conservator serve``: serves the web page and the JSON API."""

import os
import socket
from contextlib import suppress
from typing import Annotated

import typer

from conservator.cli.console import exit_on_sigterm, messages
from conservator.cli.options import Threads
from conservator.errors import ConservatorError
from conservator.options import DEFAULT_LANGUAGE_MODEL, EXPERTS
from conservator.system.processes import available_cores

EXAMPLES = (
    "Examples:\n\n"
    "  conservator serve\n\n"
    "  conservator serve --port 9000 --experts prose,./notes\n\n"
    "  curl -s localhost:8000/v1/restore -H 'Content-Type: application/json' -d '{\"text\": \"one mark: \ufffd\"}'\n\n"
    "Exit codes: 0 stopped (Ctrl-C, SIGTERM), 2 invalid usage, 3 unknown expert, or the address cannot be used."
)


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on. 127.0.0.1 cannot be reached from other machines.")
    ] = "127.0.0.1",
    experts: Annotated[
        str, typer.Option(help="Experts to offer, separated by commas: built-in names, folders or hf: models.")
    ] = ",".join(EXPERTS),
    language_models: Annotated[
        str,
        typer.Option(
            "--language-model",
            metavar="NAME",
            help="Language models of requests with the effort best, separated by commas; loaded by the first of them.",
        ),
    ] = DEFAULT_LANGUAGE_MODEL,
    max_bytes: Annotated[
        int, typer.Option(min=1, help="Maximum size of a document, and of all its references together, in bytes.")
    ] = 1_000_000,
    max_seconds: Annotated[
        float, typer.Option(min=1, help="Time limit for one document, in seconds; the result so far is returned.")
    ] = 600,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes; each restores one document.")] = 1,
    queue_size: Annotated[int, typer.Option(min=0, help="Requests that may wait for a worker; more are refused.")] = 8,
    threads: Threads = None,
) -> None:
    """Serve a web page and a JSON API that restore documents. By default only this machine can reach them."""
    try:
        from conservator.web.queue import RestorationQueue
        from conservator.web.server import Server
    except ImportError as error:
        raise ConservatorError(
            f"{error.name} is not installed; install it with pip install 'conservator[web]'"
        ) from error
    from conservator.web.config import ServerConfig
    from conservator.web.guard import is_loopback

    variable = os.environ.get("OMP_NUM_THREADS", "")
    worker_threads = max(1, int(variable)) if variable.isdecimal() else max(1, available_cores() // workers)
    config = ServerConfig(
        experts=experts,
        language_models=language_models,
        host=host,
        max_bytes=max_bytes,
        max_seconds=max_seconds,
        workers=workers,
        queue_size=queue_size,
        threads=worker_threads,
    )
    # uvicorn raises SIGTERM again after it has stopped
    with exit_on_sigterm(0), listen(host, port) as listener, RestorationQueue(config) as queue:
        server = Server(config, queue)
        url_host = f"[{host}]" if ":" in host else host
        url = f"http://{url_host}:{listener.getsockname()[1]}/"
        messages.print(f"{url} (press Ctrl-C to stop)", soft_wrap=True)
        if not is_loopback(host):
            messages.print("warning: other machines can reach this server; it has no authentication", soft_wrap=True)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; connections wait until the server is ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, TypeError, ValueError) as error:  # TypeError: the name contains a null character
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "invalid host name"
        raise ConservatorError(f"cannot listen on {host}, port {port}: {reason}") from error
    return listener
