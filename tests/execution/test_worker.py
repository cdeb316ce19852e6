"""Processes are started from several threads concurrently."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from conservator.errors import Advice, ConservatorError, OptionError
from conservator.execution import worker as workers
from conservator.execution.worker import Worker


class Context:
    """A fake multiprocessing context: starting a process waits for another thread that starts one, if possible."""

    def __init__(self):
        self.barrier, self.environments = threading.Barrier(2), {}

    def Pipe(self):  # noqa: N802
        return open(os.devnull), open(os.devnull)  # noqa: PTH123

    def Process(self, target, args, daemon):  # noqa: N802
        return Process(self, args[-1])


class Process:
    def __init__(self, context, number):
        self.context, self.number = context, number

    def start(self):
        with suppress(threading.BrokenBarrierError):
            self.context.barrier.wait(0.1)
        self.context.environments[self.number] = {name: os.environ.get(name) for name in workers.THREAD_VARIABLES}


def test_each_process_has_its_number_of_threads_and_the_environment_is_restored(monkeypatch):
    context = Context()
    monkeypatch.setattr(workers, "get_context", lambda method: context)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda number: Worker.start("", number, number), range(1, 9)))
    for worker in started:
        worker.connection.close()
    assert context.environments == {
        number: dict.fromkeys(workers.THREAD_VARIABLES, str(number)) for number in range(1, 9)
    }
    assert dict(os.environ) == before


@pytest.mark.parametrize("error", [OptionError("mark", "bad"), ConservatorError("bad", Advice("mark", "_", "helps"))])
def test_errors_can_be_sent_between_processes(error):
    sent = pickle.loads(pickle.dumps(error))
    assert type(sent) is type(error)
    assert (str(sent), sent.__dict__) == (str(error), error.__dict__)
