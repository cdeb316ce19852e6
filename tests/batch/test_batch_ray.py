"""The Ray engine on a local instance: the same results as the local engine, also after crashes."""

import os
import signal
import sys
from dataclasses import replace

import pytest

from conservator.batch import LocalEngine, RayEngine, WorkerConfig
from conservator.batch.engine import Task
from conservator.errors import ConservatorError, OptionError
from conservator.options import RestoreOptions
from support.batch_stub import LOG

pytest.importorskip("ray", reason="pip install conservator[ray]")
CONFIG = WorkerConfig(RestoreOptions(), factory="support.batch_stub:make")
TEXTS = [f"document {number} has l\ufffdst s\ufffdme".encode() for number in range(20)]
TEXTS[3], TEXTS[7] = b"nothing is lost", b"REFUSED \xef\xbf\xbd"


@pytest.fixture(autouse=True)
def _actors_find_the_stub(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def results(engine, texts):
    """Task number -> result, without its seconds."""
    results_by_number = {}
    for number, result in engine.run(Task(number, text) for number, text in enumerate(texts)):
        assert number not in results_by_number
        results_by_number[number] = replace(result, seconds=0.0)
    return results_by_number


def test_actors_that_are_killed_change_nothing(tmp_path, monkeypatch):
    expected = results(LocalEngine(CONFIG), TEXTS)
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv(LOG, str(log))
    monkeypatch.setenv("BATCH_SECONDS", "0.05")
    killed = set()

    def tasks_with_kills():
        """Yield tasks, and kill a busy actor between some of them."""
        for number, text in enumerate(TEXTS):
            seen = [int(line.split()[0]) for line in log.read_text().splitlines()]
            if seen and len(killed) < 2 and number % 5 == 4 and seen[-1] not in killed:
                killed.add(seen[-1])
                os.kill(seen[-1], signal.SIGKILL)
            yield Task(number, text)

    run = RayEngine(CONFIG, jobs=2).run(tasks_with_kills())
    assert {number: replace(result, seconds=0.0) for number, result in run} == expected
    assert killed
    assert len(log.read_text().splitlines()) <= len(TEXTS) + len(killed)


def test_poison_documents_do_not_stop_the_rest():
    texts = [TEXTS[0], b"KILL", b"SLEEP", TEXTS[1]]
    by_number = results(RayEngine(CONFIG, jobs=2, time_limit=3.0), texts)
    assert [by_number[number].outcome for number in range(4)] == ["restored", "copied", "copied", "restored"]
    assert by_number[1].reason.startswith("3 workers crashed on this document")
    assert by_number[2].reason == "took longer than the time limit of 3 s"


def test_an_invalid_configuration_or_address_is_an_error():
    with pytest.raises(OptionError, match="a bad mark"):
        results(RayEngine(replace(CONFIG, options=RestoreOptions(mark="bad")), jobs=1), TEXTS[:1])
    with pytest.raises(ConservatorError, match=r"cannot connect to Ray at 127\.0\.0\.1:1"):
        results(RayEngine(CONFIG, address="127.0.0.1:1"), TEXTS[:1])
