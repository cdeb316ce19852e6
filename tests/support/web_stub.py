"""A web worker that returns at once and fails on request of the document."""

import os
import signal
import time
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.web.worker import dump

BEGUN = "WEB_BEGUN"  # environment variable: a file that is created when a document is started
RELEASE = "WEB_RELEASE"  # environment variable: HOLD continues when this file exists


def wait_for(path):
    while not Path(path).exists():
        time.sleep(0.005)


class Stub:
    """A worker that replaces each mark by a letter."""

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
        if "HOLD" in text:  # reporting progress, which raises if the request is cancelled
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
