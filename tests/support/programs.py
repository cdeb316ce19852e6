"""External programs that tests may use, and a PATH without them.

Usage: python tests/support/programs.py FOLDER    (prints a PATH without the programs; links are made in FOLDER)
"""

import os
import sys
from pathlib import Path

PROGRAMS = frozenset(
    [
        "tesseract",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "firefox",
        "ocrmypdf",
        "hunspell",
        "pdftoppm",
        "convert",
        "magick",
    ]
)


def hide_programs(path, folder):
    """The search path ``path`` without PROGRAMS.

    Each directory that contains one of them is replaced by a directory in ``folder`` with links to everything else in
    it; the other directories stay, so that a virtual environment still works.
    """
    shown = []
    for number, place in enumerate(path.split(os.pathsep)):
        if place and any((Path(place) / name).exists() for name in PROGRAMS):
            links = Path(folder) / str(number)
            links.mkdir(parents=True)
            for one in Path(place).absolute().iterdir():
                if one.name not in PROGRAMS:
                    (links / one.name).symlink_to(one)
            shown.append(str(links))
        else:
            shown.append(place)
    return os.pathsep.join(shown)


if __name__ == "__main__":
    print(hide_programs(os.environ["PATH"], sys.argv[1]))
