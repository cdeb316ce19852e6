"""The settings of a server."""

from dataclasses import dataclass

from conservator.options import EXPERTS


@dataclass(frozen=True)
class ServerConfig:
    """The experts and the limits of a server.

    Attributes:
        experts: built-in names or folders, with commas between; requests choose among them by name.
        host: the address to listen on; on a loopback address, requests for other hosts are refused.
        max_bytes: the largest document, with its choices in it, and the most bytes of all references of one.
        max_seconds: the longest that a restoration may take, without the time that it waits; what was reached by then
            is the result.
        running: how many restorations run at a time, each in a process of its own.
        waiting: how many restorations may wait for their turn; more are refused.
        max_references: the most references of a document.
        threads: of one restoration.
        factory: ``module:function`` of what a process makes of these settings: ``Restoring``, or a stand-in for it.
    """

    experts: str = ",".join(EXPERTS)
    host: str = "127.0.0.1"
    max_bytes: int = 1_000_000
    max_seconds: float = 600.0
    running: int = 1
    waiting: int = 8
    max_references: int = 100
    threads: int = 1
    factory: str = "conservator.web.job:Restoring"
