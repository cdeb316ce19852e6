"""A stand-in for the experts of a server: it answers at once, and misbehaves where a document says so."""

import os
import signal
import time
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.web.worker import dump

BEGUN = "WEB_BEGUN"  # names a file that is made when a document is begun
RELEASE = "WEB_RELEASE"  # names a file; HOLD goes on when it is there


def wait_for(path):
    while not Path(path).exists():
        time.sleep(0.005)


class Stub:
    """A worker that says a letter for each mark."""

    def __init__(self, settings):
        if settings.experts == "bad":
            raise ConservatorError("these experts are bad")
        if settings.experts == "dead":
            os._exit(7)
        self.expert_info = [{"name": name, "reads": 64, "parameters": 1} for name in settings.experts.split(",")]

    def warm_up(self):
        """Do nothing."""

    def __call__(self, request, tell):
        text = request.text
        tell("inferring", 0.1)
        if BEGUN in os.environ:
            Path(os.environ[BEGUN]).touch()
        if "HOLD" in text:  # and hear whether it should stop
            while not Path(os.environ[RELEASE]).exists():
                time.sleep(0.005)
                tell("decoding", 0.5)
        if "DEAF" in text:
            while True:
                time.sleep(1)
        if "KILL" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "FAULT" in text:
            raise ZeroDivisionError("a fault")
        return dump({"text": text.replace("\ufffd", "x"), "process": os.getpid()})
