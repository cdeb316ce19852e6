"""Fit what ships for ``--channel ocr``: how Tesseract errs, and what its confidences mean.

    python benchmarks/rendered.py --corpora PATH --split train --pages 40 --out FOLDER
    python benchmarks/fit_reader.py --pages FOLDER/train.jsonl --out src/conservator/channels

The pages were typeset, degraded and read by Tesseract; all of them are used. The channel (ocr.json) and the calibration
(ocr_calibration.json) are fitted to the lines that were read, beside those that stood there.
The weight of what was said was chosen on 14 of these pages, of code and config, with all else fitted to 84 others.
Other engines get the calibration of Tesseract's words with half that weight: theirs is not known.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from conservator.alignment.fit_edits import fit_edits
from conservator.channels.ocr_calibration import (
    GENERAL,
    CalibrationCurve,
    CharacterConfidence,
    OcrCalibration,
    write_calibrations,
)
from conservator.pages import Transcript, character_confidences, read_pages
from conservator.system.files import write_atomically
from conservator.training.ocr_calibration import Line, fit_calibration
from conservator_studies.scanned import pair_lines, read_rows

WEIGHT = 0.25


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="readings that benchmarks/rendered.py kept")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    options = parser.parse_args()
    lines: list[Line] = []
    by_word: list[Line] = []
    count = 0
    for row in read_rows(options.pages):
        transcript = read_pages(row["hocr"].encode())
        pairs = pair_lines(row["truth"], transcript.text)
        lines += with_said(transcript, pairs, character_confidences(transcript))
        by_word += with_said(transcript, pairs, said_by_word(transcript))
        count += 1
    source = (
        f"{count} pages of prose, code and config, typeset, degraded and read by Tesseract 5.3: {len(lines)} lines; "
        f"benchmarks/fit_reader.py --pages {options.pages.name}"
    )
    channel = fit_edits([(seen, clean) for seen, clean, _ in lines], source)
    write_atomically(options.out / "ocr.json", channel.to_json().encode())
    found = replace(fit_calibration([*lines, *by_word]), weight=WEIGHT)
    record = write_calibrations({"tesseract": found, GENERAL: for_others(found)}, source)
    write_atomically(options.out / "ocr_calibration.json", record.encode())
    print(f"{source}; {len(channel.edits)} edits, {found.accuracy:.4f} of the characters right")


def with_said(
    transcript: Transcript, pairs: Sequence[tuple[str, str]], said: Sequence[CharacterConfidence]
) -> Iterator[Line]:
    """The lines that were read beside those that stood there, each with what was said of its characters."""
    place = 0
    for clean, seen in pairs:
        if seen:
            place = transcript.text.index(seen, place)
            if clean:
                yield seen, clean, said[place : place + len(seen)]
            place += len(seen)


def said_by_word(transcript: Transcript) -> list[CharacterConfidence]:
    """What was said of each character, as if there were words alone."""
    found = [CharacterConfidence()] * len(transcript.text)
    for word, (start, stop) in zip(transcript.words, transcript.spans, strict=True):
        found[start:stop] = [CharacterConfidence(word.confidence, of_word=True)] * (stop - start)
    return found


def for_others(found: OcrCalibration) -> OcrCalibration:
    """The calibration of engines of which less is known: the curve of words for characters too, with less weight."""
    return replace(
        found, glyphs=found.words, no_deletion=CalibrationCurve((), (found.no_deletion_rate,)), weight=found.weight / 2
    )


if __name__ == "__main__":
    main()
