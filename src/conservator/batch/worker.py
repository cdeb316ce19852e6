"""The main function of a worker process of the local engine."""

from multiprocessing.connection import Connection

from conservator.batch.engine import WorkerConfig
from conservator.errors import ConservatorError
from conservator.system.processes import Problem


def serve(connection: Connection, worker_config: WorkerConfig) -> None:
    """Load the experts, then process tasks until the connection is closed.

    The first message is None, or a Problem if the configuration is invalid. Every later message is the
    DocumentResult of a Task.
    """
    from conservator.batch.work import load_worker

    try:
        worker = load_worker(worker_config)
    except ConservatorError as error:
        connection.send(Problem.of(error))
        return
    connection.send(None)
    while True:
        connection.send(worker(connection.recv()))
