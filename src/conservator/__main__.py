"""``python -m conservator``."""

from conservator.cli import main

main()
