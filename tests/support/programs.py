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
    """Return the search path ``path`` without PROGRAMS.

    A directory that contains one of them is replaced by a directory in ``folder`` with links to its other files. Other
    directories are unchanged, so that a virtual environment still works.
    """
    directories = []
    for number, directory in enumerate(path.split(os.pathsep)):
        if directory and any((Path(directory) / name).exists() for name in PROGRAMS):
            links = Path(folder) / str(number)
            links.mkdir(parents=True)
            for file in Path(directory).absolute().iterdir():
                if file.name not in PROGRAMS:
                    (links / file.name).symlink_to(file)
            directories.append(str(links))
        else:
            directories.append(directory)
    return os.pathsep.join(directories)


if __name__ == "__main__":
    print(hide_programs(os.environ["PATH"], sys.argv[1]))
