"""The engine of Ray, on a cluster of this machine alone: the same results as the local engine, whatever dies."""

import os
import signal
import sys
from dataclasses import replace

import pytest

from conservator.batch import LocalEngine, WorkerConfig
from conservator.batch.engine import Task
from conservator.batch.ray import RayEngine
from conservator.errors import ConservatorError, OptionError
from conservator.options import RestoreOptions
from support.batch_stub import LOG

pytest.importorskip("ray", reason="pip install conservator[ray]")
SETUP = WorkerConfig(RestoreOptions(), factory="support.batch_stub:make")
TEXTS = [f"document {one} has l\ufffdst s\ufffdme".encode() for one in range(20)]
TEXTS[3], TEXTS[7] = b"nothing is lost", b"REFUSED \xef\xbf\xbd"


@pytest.fixture(autouse=True)
def _actors_find_the_stub(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def results(engine, texts):
    """The result of each document, without its seconds."""
    found = {}
    for number, done in engine.run(Task(number, text) for number, text in enumerate(texts)):
        assert number not in found
        found[number] = replace(done, seconds=0.0)
    return found


def test_actors_that_are_killed_change_nothing(tmp_path, monkeypatch):
    expected = results(LocalEngine(SETUP), TEXTS)
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv(LOG, str(log))
    monkeypatch.setenv("BATCH_SECONDS", "0.05")
    killed = set()

    def killing():
        """Tasks, between which an actor that is under way is killed."""
        for number, text in enumerate(TEXTS):
            seen = [int(line.split()[0]) for line in log.read_text().splitlines()]
            if seen and len(killed) < 2 and number % 5 == 4 and seen[-1] not in killed:
                killed.add(seen[-1])
                os.kill(seen[-1], signal.SIGKILL)
            yield Task(number, text)

    found = {number: replace(done, seconds=0.0) for number, done in RayEngine(SETUP, jobs=2).run(killing())}
    assert found == expected
    assert killed
    assert len(log.read_text().splitlines()) <= len(TEXTS) + len(killed)


def test_poison_documents_do_not_stop_the_rest():
    texts = [TEXTS[0], b"KILL", b"SLEEP", TEXTS[1]]
    found = results(RayEngine(SETUP, jobs=2, time_limit=3.0), texts)
    assert [found[number].outcome for number in range(4)] == ["restored", "copied", "copied", "restored"]
    assert found[1].reason.startswith("3 workers died on it")
    assert found[2].reason == "it took longer than 3 s"


def test_what_is_wrong_is_said():
    with pytest.raises(OptionError, match="a bad one"):
        results(RayEngine(replace(SETUP, options=RestoreOptions(mark="bad")), jobs=1), TEXTS[:1])
    with pytest.raises(ConservatorError, match=r"no cluster of Ray at 127\.0\.0\.1:1"):
        results(RayEngine(SETUP, address="127.0.0.1:1"), TEXTS[:1])
