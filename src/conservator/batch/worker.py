"""A worker process of the local engine: it loads once what it needs, and restores what it is sent."""

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

from conservator.batch.engine import Setup
from conservator.errors import ConservatorError, OptionError


def serve(connection: Connection, setup: Setup) -> None:
    """Say that it is ready, or what is wrong with the setup; then answer every task, until the driver is gone."""
    threading.Thread(target=end_with_driver, daemon=True).start()
    try:
        from conservator.batch.work import load_worker

        try:
            work = load_worker(setup)
        except ConservatorError as error:
            connection.send((error.option if isinstance(error, OptionError) else None, error.problem, error.advice))
            return
        connection.send(None)
        while True:
            connection.send(work(connection.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the driver has closed the pipe


def end_with_driver() -> None:
    """End this process at once when the driver has ended, however it did, and whatever is being computed."""
    driver = parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(1)
