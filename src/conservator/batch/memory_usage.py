"""Peak memory of this process, on systems with ``/proc`` (Linux)."""

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc/self")
RESET_PEAK = "5"  # written to clear_refs: the kernel resets the peak memory of the process


def reset_peak() -> None:
    """Reset the peak memory of this process."""
    with suppress(OSError):
        (PROC / "clear_refs").write_text(RESET_PEAK)


def peak_memory() -> int:
    """Peak memory of this process since ``reset_peak``, in bytes; 0 if unknown."""
    with suppress(OSError):
        for line in (PROC / "status").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == "VmHWM":
                return 1024 * int(value.split()[0])
    return 0
