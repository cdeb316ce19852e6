"""Number of torch threads in a restoration.

Below about 50 KB one thread is faster than several: the tensors are small, and OpenMP threads spin while they wait,
which takes many times longer if another process needs the cores.

``torch.set_num_threads`` sets the number of the calling thread, and the default of threads that have not used torch
yet. Only the calling thread should change here, so a short-lived thread restores the default.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

SINGLE_THREAD_BYTES = 50_000  # bytes: with less input, one thread is faster than two [LOG: threads]
_lock = threading.Lock()
Result = TypeVar("Result")


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """Use one thread in a ``with`` block for ``work`` < SINGLE_THREAD_BYTES bytes of input; never increase the number.

    Only the calling thread is affected, so several threads may restore concurrently.
    """
    import torch

    with _lock:  # the first use of torch in a thread must not coincide with a change of the default
        before = torch.get_num_threads()
    if work >= SINGLE_THREAD_BYTES or before == 1:
        yield
        return
    _set_threads(1)
    try:
        yield
    finally:
        _set_threads(before)


def _set_threads(threads: int) -> None:
    """Set the number of threads of the calling thread; do not change the default of new threads."""
    import torch

    with _lock:
        default = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(threads)
        _in_new_thread(lambda: torch.set_num_threads(default))


def _in_new_thread(call: Callable[[], Result]) -> Result:
    """Call a function in a new thread, and return its result."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]
