"""Worker pools: progress, cancellation, limits, crashes, replacement and the end of workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import closing

import psutil
import pytest

from conservator.errors import ConservatorError, OptionError
from conservator.execution import ClosedError, CrashError, TaskError, TimeLimitError, WorkerPool
from support.pool_stub import FACTORY

SECONDS = 120  # bound of every wait


def pool_of(config=None, workers=1, **fields):
    return closing(WorkerPool(FACTORY, config, workers, **fields))


def result(call):
    return call.result(SECONDS)


class Progress:
    """Progress reports of a call; ``started`` is set by the first."""

    def __init__(self):
        self.reports, self.started = [], threading.Event()

    def __call__(self, stage, fraction):
        self.reports.append((stage, fraction))
        self.started.set()

    def wait(self):
        assert self.started.wait(SECONDS)


def ended(process):
    """Wait until a process has ended; return whether it has."""
    for _ in range(100 * SECONDS):
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def test_results_progress_and_errors():
    progress = Progress()
    with pool_of(threads=3) as pool:
        assert pool.start() == "made from None"
        process = result(pool.submit("progress", progress))
        assert progress.reports == [("first", 0.5), ("second", 1.0)]
        assert result(pool.submit("environment")) == ("3", "PASSIVE", True)
        with pytest.raises(ConservatorError, match="refused") as refused:
            result(pool.submit("refuse"))
        assert refused.value.advice[0].option == "mark"
        assert result(pool.submit("process")) == process


def test_a_defect_of_a_handler_does_not_end_its_worker(capfd):
    with pool_of() as pool:
        process = result(pool.submit("process"))
        with pytest.raises(RuntimeError, match="ZeroDivisionError: a fault"):
            result(pool.submit("fault"))
        assert result(pool.submit("process")) == process
    assert "ZeroDivisionError: a fault" in capfd.readouterr().err


def test_a_defect_of_a_callback_fails_the_call():
    def fail(stage, fraction):
        raise ZeroDivisionError

    with pool_of() as pool:
        process = result(pool.submit("process"))
        with pytest.raises(ZeroDivisionError):
            result(pool.submit("hold", fail))
        assert result(pool.submit("process")) != process


def test_a_stopped_task_does_not_end_its_worker():
    with pool_of(stop_seconds=SECONDS) as pool:
        process, progress = result(pool.submit("process")), Progress()
        call, waiting = pool.submit("hold", progress), pool.submit("hold")
        progress.wait()
        waiting.stop()  # it was not started
        with pytest.raises(CancelledError):
            result(waiting)
        call.stop()
        with pytest.raises(TaskError, match="the task was stopped"):
            result(call)
        assert result(pool.submit("process")) == process


@pytest.mark.parametrize(
    ("task", "limits", "error", "problem"),
    [
        ("sleep", {"stop_seconds": 0.0}, TaskError, "the task was stopped"),
        ("sleep", {"time_limit": 0.5}, TimeLimitError, r"took longer than the time limit of 0\.5 s"),
        ("memory", {"memory_limit": 200 * 2**20}, TaskError, "used more memory than the limit of 200 MB"),
    ],
)
def test_a_worker_that_does_not_stop_or_exceeds_a_limit_is_replaced(task, limits, error, problem):
    with pool_of(**limits) as pool:
        process, progress = result(pool.submit("process")), Progress()
        call = pool.submit(task, progress)
        if "stop_seconds" in limits:
            progress.wait()
            call.stop()
        with pytest.raises(error, match=problem):
            result(call)
        assert ended(process)
        assert result(pool.submit("process")) != process


def test_a_task_that_crashes_workers_is_given_up(tmp_path):
    log = tmp_path / "log"
    with pool_of(workers=2) as pool:
        with pytest.raises(CrashError, match="ended by SIGKILL"):
            result(pool.submit(("kill", log)))
        assert len(set(log.read_text().split())) == 3
        assert result(pool.submit(("kill once", tmp_path / "once")))
    with pool_of(max_crashes=1) as pool, pytest.raises(CrashError):
        result(pool.submit(("kill once", tmp_path / "again")))


def test_an_idle_worker_that_exits_is_replaced():
    with pool_of(max_crashes=1) as pool:
        process = result(pool.submit("process"))
        os.kill(process, signal.SIGKILL)
        pool._live[0].process.join(SECONDS)
        assert result(pool.submit("process")) != process


def test_a_failed_replacement_is_tried_again(tmp_path):
    with pool_of(tmp_path, max_crashes=1) as pool:
        pool.start()
        for failures in (5, 1):
            (tmp_path / "failures").write_text("x" * failures)
            with pytest.raises(CrashError):
                result(pool.submit(("kill", tmp_path / "log")))
            if failures == 5:
                with pytest.raises(ConservatorError, match=r"5 workers in a row stopped .* \(exit code 8\)"):
                    result(pool.submit("process"))
            assert result(pool.submit("process"))


def test_problems_at_start_up_are_raised():
    problem = r"5 workers in a row stopped during start-up \(exit code 7\); fewer workers need less memory"
    for config, error, message in (("bad", OptionError, "mark: a bad mark"), ("dead", ConservatorError, problem)):
        with pool_of(config, 2) as pool, pytest.raises(error, match=message):
            result(pool.submit("process"))
    with pool_of("bad", 2) as pool, pytest.raises(OptionError, match="mark: a bad mark"):
        pool.start()


def test_tasks_are_read_one_ahead_in_the_thread_of_the_caller():
    read, threads = [], set()

    def tasks():
        for number in range(9):
            read.append(number)
            threads.add(threading.current_thread())
            yield "process", number

    done = []
    with pool_of(workers=2) as pool:
        for call in pool.run(tasks()):
            done.append(call.task[1])
            assert len(read) <= len(done) + 3
        assert len({worker.process.pid for worker in pool._live}) == 2
    assert sorted(done) == list(range(9))
    assert threads == {threading.current_thread()}


def test_closing_ends_all_workers_and_calls():
    pool, progress = WorkerPool(FACTORY, None), Progress()
    process = result(pool.submit("process"))
    running, waiting = pool.submit("sleep", progress), pool.submit("process")
    progress.wait()
    pool.close()
    for call in (running, waiting):
        with pytest.raises(ClosedError):
            result(call)
    assert ended(process)
    assert not pool._live
    with pytest.raises(ClosedError):
        pool.submit("process")
    pool.close()


def test_closing_the_generator_ends_all_workers():
    def run():
        with pool_of(workers=2) as pool:
            for call in pool.run(["process", "process", "sleep", "sleep"]):
                yield result(call)

    with closing(run()) as results:
        process = next(results)
    assert ended(process)


@pytest.mark.parametrize("task", ["hold", "sleep"])
def test_workers_end_with_a_parent_that_is_killed(task):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "support.pool_stub", task]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        process = int(parent.stdout.readline())
        parent.kill()
    assert ended(process)
