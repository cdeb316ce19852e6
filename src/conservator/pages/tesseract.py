"""Tesseract, the OCR engine that is installed: found, checked and called."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property

from conservator.errors import ConservatorError

OLDEST = 5  # the first version that lists the readings of characters as hOCR is read here
INSTALL = (
    "Debian and Ubuntu: apt-get install tesseract-ocr; macOS: brew install tesseract; "
    "Windows: winget install UB-Mannheim.TesseractOCR"
)
LANGUAGE = re.compile(r"[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)?")  # eng, chi_sim, script/Latin
VERSION = re.compile(r"tesseract v?(\d+)(\.\S*)?")
NOISE = re.compile(r"Estimating resolution as|Detected \d+ diacritics|Invalid resolution|^Page \d+|^Warning|^\s*$")
# How text may be laid out on a page -> Tesseract's number for it: whatever is found, one column, or one block, in which
# blanks never part columns, as in a listing of code.
LAYOUTS = {"auto": "3", "column": "4", "block": "6"}
LIGHT = "thresholding_method=2"  # Sauvola's; the default has one threshold for a page, and loses what is in shadow
SHORT = 30.0  # seconds for what needs no reading


@dataclass(frozen=True)
class Tesseract:
    """An installed Tesseract.

    Attributes:
        path: the program.
        version: such as ``5.3.0``.
    """

    path: str
    version: str

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages that it can read, by Tesseract's names, such as ``eng``."""
        done = _call([self.path, "--list-langs"], b"", SHORT)
        lines = done.stdout.decode(errors="replace").split("\n")
        return tuple(line.strip() for line in lines if LANGUAGE.fullmatch(line.strip()))

    def check_language(self, language: str) -> None:
        """Refuse languages that are not installed, such as ``eng+lat``."""
        for one in language.split("+"):
            if not LANGUAGE.fullmatch(one):
                raise ConservatorError(f"the language {one!r} is no name of Tesseract's, such as eng, deu or eng+lat")
            if one not in self.languages:
                raise ConservatorError(
                    f"Tesseract has no language {one}; installed: {', '.join(self.languages) or 'none'}. "
                    f"Debian and Ubuntu: apt-get install tesseract-ocr-{one.lower().replace('_', '-')}; macOS: "
                    f"brew install tesseract-lang; or put {one}.traineddata of tessdata_fast where Tesseract has the "
                    "others (tesseract --list-langs names the folder)"
                )

    def read(self, image: bytes, language: str, *, layout: str, symbols: bool, seconds: float) -> bytes:
        """The hOCR of an image, or of all images in a TIFF file.

        Args:
            image: the bytes of a file that Tesseract can decode.
            language: one that is installed, or several with ``+`` between them.
            layout: one of LAYOUTS.
            symbols: whether every character is listed with its box, its confidence and other readings.
            seconds: after which the reading is given up.
        """
        command = [self.path, "stdin", "stdout", "-l", language, "--psm", LAYOUTS[layout], "-c", LIGHT]
        if symbols:
            command += ["-c", "hocr_char_boxes=1", "-c", "lstm_choice_mode=2"]
        done = _call([*command, "hocr"], image, seconds)
        if done.returncode or not done.stdout.strip():
            raise ConservatorError(f"Tesseract could not read the image: {_complaint(done)}")
        return done.stdout


def find_tesseract() -> Tesseract:
    """The installed Tesseract; raise a ConservatorError that says how to install it if there is none."""
    path = shutil.which("tesseract")
    if path is None:
        raise ConservatorError(f"images are read by Tesseract, which is not installed. {INSTALL}")
    done = _call([path, "--version"], b"", SHORT)
    told = (done.stdout + b"\n" + done.stderr).decode(errors="replace")  # older versions tell it on standard error
    found = VERSION.search(told)
    if done.returncode or found is None:
        raise ConservatorError(f"{path} does not say that it is Tesseract: {_complaint(done)}. {INSTALL}")
    version = found[1] + (found[2] or "")
    if int(found[1]) < OLDEST:
        raise ConservatorError(f"{path} is Tesseract {version}; {OLDEST}.0 or later is needed. {INSTALL}")
    return Tesseract(path, version)


def _call(command: list[str], given: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, with one thread. If it is given up, for whatever reason, it is killed."""
    environment = os.environ | {"OMP_THREAD_LIMIT": "1", "LC_ALL": "C"}
    try:
        return subprocess.run(command, input=given, capture_output=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConservatorError(f"Tesseract was given up after {seconds:.0f} seconds") from error
    except OSError as error:
        raise ConservatorError(f"cannot run {command[0]}: {error.strerror}") from error


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program that failed said, on one line."""
    lines = done.stderr.decode(errors="replace").splitlines()
    said = [" ".join(line.split()) for line in lines if not NOISE.search(line)]
    if said:
        return "; ".join(said)[:300]
    return "it wrote nothing" if not done.returncode else f"it ended with code {done.returncode}"
