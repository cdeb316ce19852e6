"""Run the command line in a subprocess or in this process."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

from conservator.cli import main


def run(*words, cwd=None):
    command = [sys.executable, "-m", "conservator", *map(str, words)]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def run_program(program, cwd):
    """Run Python code that patches the command line and calls it."""
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False)


def call(*words, cwd, stdin=b""):
    """Run the command line in this process, which saves the time of its imports."""
    streams = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="") for data in (stdin, b"", b"")]
    names, before = ("stdin", "stdout", "stderr"), (sys.stdin, sys.stdout, sys.stderr, sys.argv)
    try:
        for name, stream in zip(names, streams, strict=True):
            setattr(sys, name, stream)
        sys.argv = ["conservator", *map(str, words)]
        with contextlib.chdir(cwd), mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
            main()
        code = 0
    except SystemExit as exit_request:
        code = exit_request.code or 0
    finally:
        sys.stdin, sys.stdout, sys.stderr, sys.argv = before
    for stream in streams[1:]:
        stream.flush()
    return subprocess.CompletedProcess(words, code, *(stream.buffer.getvalue().decode() for stream in streams[1:]))
