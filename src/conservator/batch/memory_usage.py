"""Memory usage of processes, on systems with ``/proc`` (Linux)."""

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
RESET_PEAK = "5"  # written to clear_refs: the kernel resets the peak memory of the process


def is_supported() -> bool:
    """Whether the system reports the memory of a process."""
    return (PROC / "self" / "status").is_file()


def reset_peak() -> None:
    """Reset the peak memory of this process."""
    with suppress(OSError):
        (PROC / "self" / "clear_refs").write_text(RESET_PEAK)


def peak_memory() -> int:
    """Peak memory of this process since ``reset_peak``, in bytes; 0 if unknown."""
    return _read_status("self", "VmHWM")


def memory_of(process: int) -> int:
    """Memory of a process in bytes; 0 if it has ended or is unknown."""
    return _read_status(str(process), "VmRSS")


def _read_status(process: str, name: str) -> int:
    with suppress(OSError):
        for line in (PROC / process / "status").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return 1024 * int(value.split()[0])
    return 0
