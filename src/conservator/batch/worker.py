"""A worker process of the local engine: it loads once what it needs, and restores what it is sent."""

from multiprocessing.connection import Connection

from conservator.batch.engine import WorkerConfig
from conservator.errors import ConservatorError
from conservator.system.processes import Problem


def serve(connection: Connection, setup: WorkerConfig) -> None:
    """Say that it is ready, or what is wrong with the setup; then answer every task, until the driver is gone."""
    from conservator.batch.work import load_worker

    try:
        work = load_worker(setup)
    except ConservatorError as error:
        connection.send(Problem.of(error))
        return
    connection.send(None)
    while True:
        connection.send(work(connection.recv()))
