"""What a server allows."""

from dataclasses import dataclass

from conservator.options import EXPERTS


@dataclass(frozen=True)
class Settings:
    """The limits of a server.

    Attributes:
        experts: built-in names or folders, with commas between; requests choose among them by name.
        host: the address that it is reached by; on a loopback address other names are refused.
        max_bytes: of a document.
        max_seconds: for a restoration, waiting not counted.
        running: restorations at a time.
        waiting: restorations that wait for their turn; more are refused.
    """

    experts: str = ",".join(EXPERTS)
    host: str = "127.0.0.1"
    max_bytes: int = 1_000_000
    max_seconds: float = 600.0
    running: int = 1
    waiting: int = 8
