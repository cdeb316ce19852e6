"""Configuration of a server."""

from dataclasses import dataclass

from conservator.options import DEFAULT_LANGUAGE_MODEL, EXPERTS


@dataclass(frozen=True)
class ServerConfig:
    """Experts and limits of a server.

    Attributes:
        experts: built-in names or folders, separated by commas; requests select experts by name.
        language_models: language models of requests with ``effort="best"``; they are loaded by the first such request.
        host: address to listen on; on a loopback address, requests for other hosts are refused.
        max_bytes: largest size of a document, including its fixed texts, and of all its references together.
        max_seconds: time limit of a restoration, without its time in the queue; the result is partial if the limit is
            reached.
        workers: number of worker processes; each restores one document at a time.
        queue_size: number of restorations that may wait for a worker; further requests are refused.
        max_references: largest number of references of a document.
        threads: number of threads of a worker.
        factory: ``module:function`` that a worker calls with this configuration to get its handler (``Responder``).
    """

    experts: str = ",".join(EXPERTS)
    language_models: str = DEFAULT_LANGUAGE_MODEL
    host: str = "127.0.0.1"
    max_bytes: int = 1_000_000
    max_seconds: float = 600.0
    workers: int = 1
    queue_size: int = 8
    max_references: int = 100
    threads: int = 1
    factory: str = "conservator.web.job:RestoreHandler"
