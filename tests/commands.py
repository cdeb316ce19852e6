"""The command line as a person or a script uses it."""

import os
import subprocess
import sys


def run(*words, cwd=None):
    command = [sys.executable, "-m", "conservator", *map(str, words)]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def run_program(program, cwd):
    """Run Python code that calls the command line after changing something in it."""
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False)
