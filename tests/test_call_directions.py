"""No package boundary is crossed in both directions while a document is opened, restored and written."""

import sys
from functools import cache
from pathlib import Path

import pytest

import conservator
from conservator import RestoreOptions, Restorer, open_document
from support.fakes import FakeExpert
from support.ocr_files import write_hocr

LIBRARY = Path(conservator.__file__).parent
OCR_LINE = "The constable found tbe prisoner in the burning house in the morning."
DOCUMENTS = {
    "bytes": (b"The quick br\xef\xbf\xbdwn fox and the lazy d\xef\xbf\xbdg.", {}),
    "gap": (b"The quick brown [...] and the lazy dog.", {"gap": "[...]", "max_gap": 3}),
    "characters": ("Ein M\ufffddchen tr\ufffdgt Bl\ufffdten nach K\ufffdln.".encode(), {"lost": "characters"}),
    "overwritten": (b"The quick brown f#x and the lazy dog.", {"channel": "replacement:0.05"}),
    "table row": ("The stat\ufffdon records rain.", {}),
    "OCR text": (OCR_LINE.encode(), {"channel": "ocr"}),
    "hOCR": (write_hocr([OCR_LINE.split()]), {}),
}


@cache
def package_of_file(name):
    """The package or top-level module of a file of the library; None for other files."""
    path = Path(name)
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py") if path.is_relative_to(LIBRARY) else None


def package_of(frame):
    return package_of_file(frame.f_code.co_filename)


def restore(data, options, folder):
    document = open_document(data, options)
    is_lexical = options.channel == "ocr" or options.lost == "characters" or document.transcript is not None
    result = Restorer([FakeExpert(0)], options, select=is_lexical).restore(document)
    document.write(result, folder / "result")
    result.to_html()


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_no_boundary_is_crossed_in_both_directions(kind, tmp_path):
    calls = {}

    def profile(frame, event, _):
        # A generator expression runs in the function that consumes it, but belongs to the one that made it.
        if event != "call" or frame.f_code.co_name == "<genexpr>":
            return
        caller, called = frame.f_back, package_of(frame)
        while called and caller is not None and package_of(caller) is None:
            caller = caller.f_back
        if called and caller is not None and package_of(caller) != called:
            calls.setdefault((package_of(caller), called), f"{caller.f_code.co_name} calls {frame.f_code.co_name}")

    data, changes = DOCUMENTS[kind]
    restore(data, RestoreOptions(**changes), tmp_path)  # loads models and compiles kernels
    sys.setprofile(profile)
    try:
        restore(data, RestoreOptions(**changes), tmp_path)
    finally:
        sys.setprofile(None)
    assert ("restorer", "pipelines") in calls
    both = {pair: (calls[pair], calls[pair[::-1]]) for pair in calls if pair[::-1] in calls}
    assert both == {}
