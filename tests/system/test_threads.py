"""The threads of torch in a restoration: one for a small document, and everything as before afterwards."""

import threading

import pytest
import torch

from conservator import Restorer, restore
from conservator.system import threads as module
from conservator.system.threads import threads_for
from support.fakes import FakeExpert


class Watching(FakeExpert):
    """Records with how many threads it predicts."""

    def __init__(self):
        super().__init__(context=512)
        self.threads = set()

    def predict(self, context, at):
        self.threads.add(torch.get_num_threads())
        return super().predict(context, at)


def in_new_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


SMALL = 3000  # instead of the real limit, to keep the test fast


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(module, "SMALL", SMALL)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("call", [restore, lambda text, experts: Restorer(experts).restore(text)])
def test_a_small_document_is_read_with_one_thread(call):
    expert = Watching()
    call("The quick bro\ufffdn fox", [expert])
    assert expert.threads == {1}
    assert torch.get_num_threads() == 2
    assert in_new_thread(torch.get_num_threads) == 2


def test_much_damage_is_read_with_all_threads():
    expert = Watching()
    restore("The quick bro\ufffdn fox. " * (SMALL // 22), [expert], memory=False)
    assert expert.threads == {2}


def test_little_damage_in_a_long_document_is_read_with_one_thread():
    expert = Watching()
    restore("The quick bro\ufffdn fox. " + "All is well here. " * (SMALL // 18), [expert], memory=False)
    assert expert.threads == {1}


def test_an_error_leaves_the_number_as_it_was():
    with pytest.raises(ZeroDivisionError), threads_for(10):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 2


def test_the_number_is_never_raised():
    torch.set_num_threads(1)
    with threads_for(10 * SMALL):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def test_several_threads_restore_at_once():
    """Each thread has its own number, and those that begin meanwhile have the usual one."""
    inside, leave = threading.Barrier(3), threading.Event()
    seen = {}

    def small(name):
        with threads_for(10):
            inside.wait()
            leave.wait()
            within = torch.get_num_threads()
        seen[name] = within, torch.get_num_threads()

    threads = [threading.Thread(target=small, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    inside.wait()
    assert torch.get_num_threads() == 2
    assert in_new_thread(torch.get_num_threads) == 2
    leave.set()
    for thread in threads:
        thread.join()
    assert seen == {"a": (1, 2), "b": (1, 2)}
    assert in_new_thread(torch.get_num_threads) == 2
