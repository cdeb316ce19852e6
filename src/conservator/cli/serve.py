"""``conservator serve``: the page, on this machine."""

from contextlib import suppress
from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Threads
from conservator.errors import ConservatorError
from conservator.options import EXPERTS

EXAMPLES = (
    "Examples:\n\n"
    "  conservator serve\n\n"
    "  conservator serve --port 9000 --experts prose,./notes\n\n"
    "  curl -s localhost:8000/v1/restore -H 'Content-Type: application/json' -d '{\"text\": \"one mark: \ufffd\"}'\n\n"
    "Exit codes: 0 stopped, 2 bad usage, 3 no such expert, or the port is taken."
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
    max_seconds: Annotated[float, typer.Option(min=1, help="The longest time for one document.")] = 600,
    running: Annotated[int, typer.Option(min=1, help="Restorations at a time.")] = 1,
    waiting: Annotated[int, typer.Option(min=0, help="Restorations that may wait; more are refused.")] = 8,
    threads: Threads = None,
) -> None:
    """Serve a page to restore documents on, and a JSON API under it; on this machine alone unless told otherwise."""
    import socket

    try:
        import uvicorn

        from conservator.web.app import create_app
    except ImportError as error:
        raise ConservatorError(f"{error.name} is not installed; pip install 'conservator[web]' brings it") from error
    from conservator.web.guard import is_loopback
    from conservator.web.settings import Settings

    settings = Settings(experts, host, max_bytes, max_seconds, running, waiting)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConservatorError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
        app = create_app(settings)
        shown = f"[{host}]" if ":" in host else host
        messages.print(f"http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)", soft_wrap=True)
        if not is_loopback(host):
            messages.print("other machines can reach it: it has no passwords", soft_wrap=True)
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=1)
        )
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
