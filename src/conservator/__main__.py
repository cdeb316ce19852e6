"""The entry point of the ``conservator`` program and of ``python -m conservator``."""

import gc
import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line. Ctrl-C during the imports exits with one line instead of a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_interrupted)
    from conservator.cli import main as run

    signal.signal(signal.SIGINT, handler)
    try:
        run()
    finally:
        gc.freeze()  # skips the final garbage collection over all imported modules


def exit_interrupted(number: int, frame: FrameType | None) -> None:
    """Exit immediately with exit code 130."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
