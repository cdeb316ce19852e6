"""The installed Tesseract: detection, version and language checks, calls."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property

from conservator.errors import ConservatorError

# major version: the first whose hOCR lists alternatives of characters in the known form [definition]
MIN_MAJOR_VERSION = 5
INSTALL = (
    "Debian and Ubuntu: apt-get install tesseract-ocr; macOS: brew install tesseract; "
    "Windows: winget install UB-Mannheim.TesseractOCR"
)
LANGUAGE = re.compile(r"[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)?")  # eng, chi_sim, script/Latin
VERSION = re.compile(r"tesseract v?(\d+)(\.\S*)?")
NOISE = re.compile(r"Estimating resolution as|Detected \d+ diacritics|Invalid resolution|^Page \d+|^Warning|^\s*$")
# Layouts and Tesseract's page segmentation modes: automatic, a single column, or a single block, in which wide spaces
# do not separate columns, as in source code.
LAYOUTS = {"auto": "3", "column": "4", "block": "6"}
# An adaptive threshold (Sauvola), because the default is global, and loses text in shadows; every character with
# its box, confidence and alternatives.
SETTINGS = ("thresholding_method=2", "hocr_char_boxes=1", "lstm_choice_mode=2")
MAX_QUERY_SECONDS = 30.0  # seconds: time limit of calls without OCR [safety limit]
MAX_MESSAGE_CHARS = 300  # characters: length of Tesseract's messages in an error [untuned]


@dataclass(frozen=True)
class Tesseract:
    """An installed Tesseract.

    Attributes:
        path: path of the program.
        version: version, such as ``5.3.0``.
    """

    path: str
    version: str

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Installed languages, by Tesseract's names, such as ``eng``."""
        result = _call([self.path, "--list-langs"], b"", MAX_QUERY_SECONDS)
        lines = result.stdout.decode(errors="replace").split("\n")
        return tuple(line.strip() for line in lines if LANGUAGE.fullmatch(line.strip()))

    def check_language(self, language: str) -> None:
        """Raise an error if a language, such as those of ``eng+lat``, is not installed."""
        for name in language.split("+"):
            if not LANGUAGE.fullmatch(name):
                raise ConservatorError(
                    f"language must be a name of Tesseract, such as eng, deu or eng+lat, got {name!r}"
                )
            if name not in self.languages:
                raise ConservatorError(
                    f"the language {name} of Tesseract is not installed; "
                    f"installed: {', '.join(self.languages) or 'none'}. "
                    f"Debian and Ubuntu: apt-get install tesseract-ocr-{name.lower().replace('_', '-')}; macOS: "
                    f"brew install tesseract-lang; or copy {name}.traineddata of tessdata_fast to the folder that "
                    "tesseract --list-langs shows"
                )

    def read(self, image: bytes, language: str, *, layout: str, max_seconds: float) -> bytes:
        """Return the hOCR of an image, or of all images in a TIFF file, with its characters.

        Args:
            image: bytes of an image file that Tesseract can decode.
            language: installed language; several are joined with ``+``.
            layout: key of LAYOUTS.
            max_seconds: time limit in seconds.
        """
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        command = [self.path, "stdin", "stdout", "-l", language, "--psm", LAYOUTS[layout], *settings, "hocr"]
        result = _call(command, image, max_seconds)
        if result.returncode or not result.stdout.strip():
            raise ConservatorError(f"Tesseract could not read the image: {_failure(result)}")
        return result.stdout


def find_tesseract() -> Tesseract:
    """Find the installed Tesseract; the error explains how to install it if it is missing or too old."""
    path = shutil.which("tesseract")
    if path is None:
        raise ConservatorError(f"OCR of images needs Tesseract, which is not installed. {INSTALL}")
    result = _call([path, "--version"], b"", MAX_QUERY_SECONDS)
    output = (result.stdout + b"\n" + result.stderr).decode(errors="replace")  # old versions use standard error
    match = VERSION.search(output)
    if result.returncode or match is None:
        raise ConservatorError(f"{path} does not report a version of Tesseract: {_failure(result)}. {INSTALL}")
    version = match[1] + (match[2] or "")
    if int(match[1]) < MIN_MAJOR_VERSION:
        raise ConservatorError(f"Tesseract {MIN_MAJOR_VERSION}.0 or later is needed, {path} is {version}. {INSTALL}")
    return Tesseract(path, version)


def _call(command: list[str], stdin: bytes, max_seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program with one thread; it is killed at the time limit and on any exception."""
    environment = os.environ | {"OMP_THREAD_LIMIT": "1", "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=max_seconds, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConservatorError(f"Tesseract did not finish within {max_seconds:.0f} seconds") from error
    except OSError as error:
        raise ConservatorError(f"cannot run {command[0]}: {error.strerror}") from error


def _failure(result: subprocess.CompletedProcess[bytes]) -> str:
    """Return the messages of a failed program on one line."""
    lines = result.stderr.decode(errors="replace").splitlines()
    messages = [" ".join(line.split()) for line in lines if not NOISE.search(line)]
    if messages:
        return "; ".join(messages)[:MAX_MESSAGE_CHARS]
    return "it wrote no output" if not result.returncode else f"it exited with code {result.returncode}"
