"""Number of torch threads in a restoration: one for a small document, restored afterwards."""

import threading

import pytest
import torch

from conservator import Restorer, restore
from conservator.system import threads as module
from conservator.system.threads import threads_for
from support.fakes import FakeExpert


class ThreadRecorder(FakeExpert):
    """Records the number of threads of its predictions."""

    def __init__(self):
        super().__init__(context=512)
        self.threads = set()

    def predict(self, context, at):
        self.threads.add(torch.get_num_threads())
        return super().predict(context, at)


def in_new_thread(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


LIMIT = 3000  # bytes: replaces the real limit, to keep the test fast


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(module, "SINGLE_THREAD_BYTES", LIMIT)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("call", [restore, lambda text, experts: Restorer(experts).restore(text)])
def test_a_small_document_is_processed_with_one_thread(call):
    expert = ThreadRecorder()
    call("The quick bro\ufffdn fox", [expert])
    assert expert.threads == {1}
    assert torch.get_num_threads() == 2
    assert in_new_thread(torch.get_num_threads) == 2


def test_much_damage_is_processed_with_all_threads():
    expert = ThreadRecorder()
    restore("The quick bro\ufffdn fox. " * (LIMIT // 22), [expert], memory=False)
    assert expert.threads == {2}


def test_little_damage_in_a_long_document_is_processed_with_one_thread():
    expert = ThreadRecorder()
    restore("The quick bro\ufffdn fox. " + "All is well here. " * (LIMIT // 18), [expert], memory=False)
    assert expert.threads == {1}


def test_the_number_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), threads_for(10):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 2


def test_the_number_is_never_increased():
    torch.set_num_threads(1)
    with threads_for(10 * LIMIT):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def test_several_threads_restore_concurrently():
    """Each thread has its number, and threads that start meanwhile have the default."""
    inside, leave = threading.Barrier(3), threading.Event()
    numbers = {}

    def small(name):
        with threads_for(10):
            inside.wait()
            leave.wait()
            within = torch.get_num_threads()
        numbers[name] = within, torch.get_num_threads()

    threads = [threading.Thread(target=small, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    inside.wait()
    assert torch.get_num_threads() == 2
    assert in_new_thread(torch.get_num_threads) == 2
    leave.set()
    for thread in threads:
        thread.join()
    assert numbers == {"a": (1, 2), "b": (1, 2)}
    assert in_new_thread(torch.get_num_threads) == 2
