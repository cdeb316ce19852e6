"""Fit the built-in channel of ``--channel ocr`` to the errors of Tesseract, and calibrate its confidences.

    python benchmarks/rendered.py --corpora PATH --split train --pages 40 --out FOLDER
    python benchmarks/fit_ocr_calibration.py --pages FOLDER/train.jsonl --out src/conservator/channels

The pages were rendered, degraded and recognised by Tesseract. The channel (ocr.json) and the calibration
(ocr_calibration.json) are fitted to the pairs of recognised and true lines of all pages. The weight of the confidences
was chosen on 14 of these pages (code and config), with everything else fitted to 84 other pages. Other OCR engines get
the calibration of Tesseract's word confidences with half the weight, because no data of theirs were available.
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

WEIGHT = 0.25  # exponent of the OCR confidences [LOG: ocr-correction]


def main() -> None:
    """Fit the channel and the calibration, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="file of benchmarks/rendered.py")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    options = parser.parse_args()
    lines: list[Line] = []
    lines_by_word: list[Line] = []
    pages = 0
    for row in read_rows(options.pages):
        transcript = read_pages(row["hocr"].encode())
        pairs = pair_lines(row["truth"], transcript.text)
        lines += with_confidences(transcript, pairs, character_confidences(transcript))
        lines_by_word += with_confidences(transcript, pairs, word_confidences(transcript))
        pages += 1
    source = (
        f"{pages} pages of prose, code and config, rendered, degraded and recognised by Tesseract 5.3: "
        f"{len(lines)} lines; benchmarks/fit_ocr_calibration.py --pages {options.pages.name}"
    )
    channel = fit_edits([(observed, clean) for observed, clean, _ in lines], source)
    write_atomically(options.out / "ocr.json", channel.to_json().encode())
    calibration = replace(fit_calibration([*lines, *lines_by_word]), weight=WEIGHT)
    record = write_calibrations({"tesseract": calibration, GENERAL: for_other_engines(calibration)}, source)
    write_atomically(options.out / "ocr_calibration.json", record.encode())
    print(f"{source}; {len(channel.edits)} edits, accuracy {calibration.accuracy:.4f}")


def with_confidences(
    transcript: Transcript, pairs: Sequence[tuple[str, str]], confidences: Sequence[CharacterConfidence]
) -> Iterator[Line]:
    """Yield observed and clean lines with the confidences of the observed characters."""
    offset = 0
    for clean, observed in pairs:
        if observed:
            offset = transcript.text.index(observed, offset)
            if clean:
                yield observed, clean, confidences[offset : offset + len(observed)]
            offset += len(observed)


def word_confidences(transcript: Transcript) -> list[CharacterConfidence]:
    """Return for each character the confidence of its word."""
    confidences = [CharacterConfidence()] * len(transcript.text)
    for word, (start, stop) in zip(transcript.words, transcript.spans, strict=True):
        confidences[start:stop] = [CharacterConfidence(word.confidence, of_word=True)] * (stop - start)
    return confidences


def for_other_engines(tesseract: OcrCalibration) -> OcrCalibration:
    """Return the calibration of other engines: the curve of words also for characters, and half the weight."""
    return replace(
        tesseract,
        glyphs=tesseract.words,
        no_deletion=CalibrationCurve((), (tesseract.no_deletion_rate,)),
        weight=tesseract.weight / 2,
    )


if __name__ == "__main__":
    main()
