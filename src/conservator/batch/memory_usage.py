"""How much memory a process takes, where the system tells it (Linux)."""

from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
RESET = "5"  # what makes the kernel forget the most memory that a process had in use


def is_known() -> bool:
    """Whether the system tells how much memory a process takes."""
    return (PROCESSES / "self" / "status").is_file()


def reset_peak() -> None:
    """Begin to measure the most memory that this process has in use."""
    with suppress(OSError):
        (PROCESSES / "self" / "clear_refs").write_text(RESET)


def peak_memory() -> int:
    """The most bytes that this process had in use since; 0 if the system does not tell."""
    return _status("self", "VmHWM")


def memory_of(process: int) -> int:
    """The bytes that a process has in use; 0 if it has ended, or the system does not tell."""
    return _status(str(process), "VmRSS")


def _status(process: str, name: str) -> int:
    with suppress(OSError):
        for line in (PROCESSES / process / "status").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return 1024 * int(value.split()[0])
    return 0
