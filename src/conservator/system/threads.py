"""How many threads torch uses in a restoration.

Below about 50 KB one thread is faster than several: the tensors are small, and the threads of OpenMP spin while they
wait for each other, which takes many times longer if another process needs the cores.

``torch.set_num_threads`` sets the number for the calling thread, and the default of threads that have not used torch
yet. Only the calling thread is meant here, so the default is put back by a thread that ends at once.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

SMALL = 50_000  # bytes to read: with fewer, one thread is faster than two
_setting = threading.Lock()
Found = TypeVar("Found")


@contextmanager
def threads_for(work: int) -> Iterator[None]:
    """Use one thread in a ``with`` block if fewer than SMALL bytes are read in it; never more threads than before.

    Only the calling thread is affected, so that several threads may restore at once.

    Args:
        work: the bytes that are read.
    """
    import torch

    with _setting:  # a thread that uses torch for the first time must not do so while another changes the default
        before = torch.get_num_threads()
    if work >= SMALL or before == 1:
        yield
        return
    _set_here(1)
    try:
        yield
    finally:
        _set_here(before)


def _set_here(threads: int) -> None:
    """Set the number of threads for the calling thread, and leave the default of new threads as it is."""
    import torch

    with _setting:
        default = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(threads)
        _in_new_thread(lambda: torch.set_num_threads(default))


def _in_new_thread(call: Callable[[], Found]) -> Found:
    """What a function returns in a thread of its own."""
    found: list[Found] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]
