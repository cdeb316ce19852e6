"""The program: ``conservator``, or ``python -m conservator``."""

import gc
import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line. Ctrl-C ends it with a line also while it is being imported, when nothing is at stake."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from conservator.cli import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    finally:
        gc.freeze()  # else the interpreter searches all imported modules for garbage before it ends


def leave(number: int, frame: FrameType | None) -> None:
    """End the program at once."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
