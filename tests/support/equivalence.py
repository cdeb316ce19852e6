"""Documents, options and surfaces of the equivalence test.

A surface is a way to restore a document: the Python API, the command line, a batch, the server. Each function here
restores documents through one surface and returns an ``Outcome``; the outcomes of all surfaces must be the same.
"""

import base64
import io
import json
import re
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass

import pyarrow as arrow
from pyarrow import parquet

import conservator
from conservator.errors import ConservatorError, OptionError
from conservator.experts.language_models.precision import choose_precision
from support.commands import call
from support.ocr_files import write_alto, write_hocr, write_page, write_tsv

LANGUAGE_MODEL = "LANGUAGE_MODEL"  # placeholder of a folder in the options
NAME = "the document"  # name of every document in normalized messages
BOX = re.compile("[\u2500-\u257f]")  # characters of the frames around usage errors


def ocr_file(write, confidence):
    """An OCR file whose words all have a high confidence of Tesseract; without it, "lie" is corrected to "he"."""
    line = "The witness stated that he had scen the man in tke street, and that lie was alone."
    old, new = confidence
    return write([line.split()]).replace(old, new)


def hocr_file():
    page = ocr_file(write_hocr, (b"x_wconf 50", b"x_wconf 97"))
    return page.replace(b"<html>", b"<html><head><meta name='ocr-system' content='tesseract 5.3'/></head>")


def alto_file():
    page = ocr_file(write_alto, (b'WC="0.5"', b'WC="0.97"'))
    software = b"<processingSoftware><softwareName>tesseract</softwareName></processingSoftware>"
    step = b"<OCRProcessing><ocrProcessingStep>" + software + b"</ocrProcessingStep></OCRProcessing>"
    return page.replace(b"<alto>", b"<alto><Description>" + step + b"</Description>")


def as_tar(files):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()


def read_tar(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}


ENGLISH = "The harbour was quiet in the m\ufffdrning, and the boats lay cl\ufffdse to the wall."
GERMAN = "Die K\ufffdnigin w\ufffdnscht f\ufffdnf sch\ufffdne B\ufffdcher, der M\ufffdller tr\ufffdgt sie zur T\ufffdr."
FRENCH = "Il _tait d\u00e9j\u00e0 tr\u00e8s tard, et la m\u00e8re dormait pr\u00e8s de l_ fen\u00eatre."
OCR = "The prisoner was taken to the station hy the constable."
GERMAN_OCR = "Der Richter sagte, dass der Mann in dem Hanse gewesen war und nicht mebr dort wohnte."
OVERWRITTEN = "The harbour was qu\x7fet in the morning, and the boats l#y close to the wall of the old fort."
UNDAMAGED = "Nothing is lost in this document.\n"
MOJIBAKE = "Herr M\u00c3\u00bcller wohnt in K\u00c3\u00b6ln, und er fuhr gestern nach Hause."
TYPING = "teh quick borwn fox jumps over the lazy dog, and then it sleeps in the old house."
SPACES = "thequickbrownfoxjumpsoverthelazydogandthenitsleepsintheoldhouse"
CASE = "wir sind mit dem zug nach berlin gefahren und haben unsere freunde in m\u00fcnchen besucht."
BROKEN = "The houses of the old har-\nbour were quiet in the mor-\nning, and the boats lay close.\n"
NOTATED = "D(is) M(anibus) [...] vixit an[nis ..] fecit"
HOCR = hocr_file()

FILES = {  # name -> the bytes of a file
    "english.txt": ENGLISH.encode(),
    "bom.txt": ENGLISH.encode("utf-8-sig"),
    "crlf.txt": "The old h\ufffduse stood\r\nat the end of the r\ufffdad,\r\nand n\ufffdbody came.\r\n".encode(),
    "utf16.txt": ENGLISH.encode("utf-16"),
    "german.txt": GERMAN.encode(),
    "gap.txt": b"The harbour was quiet in the morning, and the [...] lay close to the wall of the old fort.",
    "windows.txt": FRENCH.encode("windows-1252"),
    "invalid.txt": b"The harbour was quiet in the m\xffrning, and the b\xc3ats lay close to the wall.",
    "overwritten.txt": OVERWRITTEN.encode(),
    "ocr.txt": OCR.encode(),
    "ocr_utf16.txt": OCR.encode("utf-16"),
    "ocr_marks.txt": b"The prisoner was taken t\xef\xbf\xbd the station hy the constable.",
    "ocr_german.txt": GERMAN_OCR.encode(),
    "ocr_gap.txt": b"The prisoner was taken to the station hy the constable, and the [...] was sent home.",
    "page.hocr": HOCR,
    "page.alto.xml": alto_file(),
    "page.page.xml": ocr_file(write_page, (b'conf="0.5"', b'conf="0.97"')),
    "page.tsv": ocr_file(write_tsv, (b"\t50\t", b"\t97\t")),
    "broken.alto.xml": alto_file()[:-60],
    "empty.txt": b"",
    "undamaged.txt": UNDAMAGED.encode(),
    "mojibake.txt": MOJIBAKE.encode(),
    "typing.txt": TYPING.encode(),
    "spaces.txt": SPACES.encode(),
    "case.txt": CASE.encode(),
    "broken.txt": BROKEN.encode(),
    "notated.txt": NOTATED.encode(),
    "binary.dat": b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0",
}
ROWS = {  # name -> a text, such as a row of a table
    "english": ENGLISH,
    "german": GERMAN,
    "ocr": OCR,
    "overwritten": OVERWRITTEN,
    "empty": "",
    "undamaged": UNDAMAGED,
    "hocr": HOCR.decode(),  # a text is never an OCR file
}
OPTIONS = {  # name -> fields of RestoreOptions
    "mask": {},
    "gap": {"gap": "[...]", "max_gap": 8, "alternatives": 2},
    "mark": {"mark": "_", "min_confidence": 0.9},
    "invalid": {"lost": "invalid"},
    "characters": {"lost": "encoding:windows-1252"},
    "replacement": {"channel": "replacement:0.05"},
    "ocr": {"channel": "ocr"},
    "ocr strict": {"channel": "ocr", "min_log_odds": 9.0},
    "auto": {"channel": "auto"},
    "mojibake": {"channel": "mojibake"},
    "typing": {"channel": "typing"},
    "spaces": {"channel": "spaces"},
    "case": {"channel": "case"},
    "hyphenation": {"channel": "hyphenation"},
    "typing and case": {"channel": "typing,case", "alternatives": 2},
    "leiden": {"notation": "leiden"},
    "typing best": {"channel": "typing", "effort": "best", "language_models": LANGUAGE_MODEL},
    "mask best": {"effort": "best", "language_models": LANGUAGE_MODEL},
    "ocr best": {"channel": "ocr", "effort": "best", "language_models": LANGUAGE_MODEL},
    "ocr gap": {"channel": "ocr", "gap": "[...]", "min_gap_confidence": 0.0, "alternatives": 2},
    "characters best": {"lost": "characters", "effort": "best", "language_models": LANGUAGE_MODEL},
    "replacement best": {"channel": "replacement:0.05", "effort": "best", "language_models": LANGUAGE_MODEL},
}
RESTORED, USAGE, BAD_INPUT, NOTHING, NOT_COVERED = 0, 2, 3, 4, 5  # exit codes of ``conservator restore``
DOCUMENTS = {  # options -> document -> exit code
    "mask": {
        "english.txt": RESTORED,
        "bom.txt": RESTORED,
        "crlf.txt": RESTORED,
        "utf16.txt": RESTORED,
        "german.txt": RESTORED,
        "page.hocr": RESTORED,
        "page.alto.xml": RESTORED,
        "page.page.xml": RESTORED,
        "page.tsv": RESTORED,
        "broken.alto.xml": BAD_INPUT,
        "empty.txt": NOTHING,
        "undamaged.txt": NOTHING,
        "windows.txt": NOTHING,
        "binary.dat": BAD_INPUT,
        "english": RESTORED,
        "german": RESTORED,
        "empty": NOTHING,
        "undamaged": NOTHING,
        "hocr": NOTHING,
    },
    "gap": {"gap.txt": RESTORED, "english.txt": RESTORED, "page.hocr": RESTORED, "empty.txt": NOTHING},
    "mark": {"windows.txt": RESTORED},
    "invalid": {"invalid.txt": RESTORED},
    "characters": {"german.txt": RESTORED, "german": RESTORED, "page.hocr": RESTORED},
    "replacement": {
        "overwritten.txt": RESTORED,
        "invalid.txt": RESTORED,
        "undamaged.txt": RESTORED,
        "empty.txt": RESTORED,
        "page.hocr": USAGE,
        "binary.dat": BAD_INPUT,
        "overwritten": RESTORED,
    },
    "ocr": {
        "ocr.txt": RESTORED,
        "ocr_utf16.txt": RESTORED,
        "ocr_marks.txt": RESTORED,
        "ocr_german.txt": NOT_COVERED,
        "page.hocr": RESTORED,
        "empty.txt": RESTORED,
        "undamaged.txt": RESTORED,
        "binary.dat": BAD_INPUT,
        "ocr": RESTORED,
    },
    "ocr strict": {"page.hocr": RESTORED},
    "auto": {
        "english.txt": RESTORED,
        "ocr.txt": RESTORED,
        "page.hocr": RESTORED,
        "mojibake.txt": RESTORED,
        "broken.txt": RESTORED,
        "undamaged.txt": RESTORED,
        "empty.txt": RESTORED,
        "binary.dat": BAD_INPUT,
    },
    "mojibake": {"mojibake.txt": RESTORED, "english.txt": RESTORED, "undamaged.txt": RESTORED},
    "typing": {"typing.txt": RESTORED, "page.hocr": RESTORED, "undamaged.txt": RESTORED, "empty.txt": RESTORED},
    "spaces": {"spaces.txt": RESTORED, "undamaged.txt": RESTORED},
    "case": {"case.txt": RESTORED, "undamaged.txt": RESTORED},
    "hyphenation": {"broken.txt": RESTORED, "undamaged.txt": RESTORED},
    "typing and case": {"typing.txt": RESTORED, "case.txt": RESTORED},
    "leiden": {"notated.txt": RESTORED},
    "typing best": {"typing.txt": RESTORED},
    "mask best": {"english.txt": RESTORED, "german.txt": RESTORED, "page.hocr": RESTORED, "english": RESTORED},
    "ocr best": {"ocr.txt": RESTORED, "page.alto.xml": RESTORED},
    "ocr gap": {"ocr.txt": RESTORED, "ocr_gap.txt": RESTORED, "page.hocr": RESTORED},
    "characters best": {"german.txt": RESTORED, "german": RESTORED},
    "replacement best": {"overwritten.txt": RESTORED},
}


@dataclass(frozen=True)
class Outcome:
    """The result of a surface.

    Attributes:
        data: the restored file, or the restored text as UTF-8; None after an error.
        record: the record without the cost; None after an error.
        problem: the error message without advice; None without an error.
        option: the option that the error is about; None if it is about the document.
        status: the exit code of the command line.
    """

    data: bytes | None = None
    record: dict | None = None
    problem: str | None = None
    option: str | None = None
    status: int | None = None


def source_of(document):
    return FILES[document] if document in FILES else ROWS[document]


def without_cost(record):
    return {name: value for name, value in record.items() if name != "cost"}


def normalized(message, *names):
    """A message without frames, line breaks and the prefix "NAME: "; names of the document are replaced by ``NAME``."""
    message = " ".join(BOX.sub(" ", message).split())
    for name in names:
        message = message.replace(str(name), NAME)
    return message.removeprefix(f"{NAME}: ")


def as_flags(options):
    """Options as flags of the command line; every name is that of the option, except the language models."""
    names = {"language_models": "language-model"}
    return [
        word for name, value in options.items() for word in (f"--{names.get(name, name).replace('_', '-')}", str(value))
    ]


def restore_by_api(document, restorer, folder):
    """Restore with ``open_document`` and a ``Restorer``."""
    source = folder / document if document in FILES else ROWS[document]
    try:
        opened = conservator.open_document(source, restorer.options)
        restoration = restorer.restore(opened)
    except ConservatorError as error:
        option = error.option if isinstance(error, OptionError) else None
        return Outcome(problem=normalized(error.problem, source), option=option)
    return Outcome(opened.encode(restoration), without_cost(json.loads(restoration.to_json())))


def restore_by_command(document, options, folder):
    """Run ``conservator restore`` with a file; a text is read from standard input."""
    is_file = document in FILES
    name, stdin = (document, b"") if is_file else ("-", ROWS[document].encode())
    words = ["restore", name, "--out", f"restored-{document}", "--json", "record.json", "--force"]
    flags = as_flags({"alternatives": 0, **options})
    done = call(*words, *flags, cwd=folder, stdin=stdin)
    target, record = folder / f"restored-{document}", folder / "record.json"
    if not target.exists():
        assert not record.exists()
        return Outcome(problem=normalized(done.stderr, name), status=done.returncode)
    outcome = Outcome(target.read_bytes(), without_cost(json.loads(record.read_text())), status=done.returncode)
    target.unlink()
    record.unlink()
    return outcome


def restore_by_server(document, options, server):
    """Send a document to a server: a file as ``data``, a text as ``text``."""
    source = source_of(document)
    request = {"alternatives": 0, **options}
    request.pop("language_models", None)  # set by the configuration of the server
    request |= {"text": source} if isinstance(source, str) else {"data": base64.b64encode(source).decode()}
    body = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/restore",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(body) as response:
            record = json.load(response)
    except urllib.error.HTTPError as error:
        fields = json.load(error)
        return Outcome(problem=normalized(str(fields.get("problem", fields))), option=fields.get("option"))
    return Outcome(base64.b64decode(record.pop("data")), without_cost(record))


def restore_by_batch(name, options, folder, *flags):
    """Run ``conservator batch`` with the documents of ``DOCUMENTS[name]``.

    Files are inputs and members of an archive; texts are rows of a table.

    Returns:
        Input -> document -> (restored data, row of the summary), and the exit code. With an error instead of results,
        the message is the only value.
    """
    documents = DOCUMENTS[name]
    files = {document: FILES[document] for document in documents if document in FILES}
    rows = [document for document in documents if document in ROWS]
    inputs = [folder / document for document in files]
    for path in inputs:
        path.write_bytes(files[path.name])
    (folder / "archive.tar").write_bytes(as_tar(files))
    if rows:
        parquet.write_table(arrow.table({"text": [ROWS[row] for row in rows]}), folder / "table.parquet")
    tables = [folder / "archive.tar", *([folder / "table.parquet"] if rows else [])]
    options = {name: value for name, value in options.items() if name != "alternatives"}  # not an option of batch
    if "language_models" in options:
        options["precision"] = choose_precision()  # that of the other surfaces; the default of a batch is float32
    done = call("batch", *inputs, *tables, "--out", "out", *as_flags(options), *flags, "--quiet", cwd=folder)
    out = folder / "out"
    if not (out / "summary.parquet").exists():
        return normalized(done.stderr), done.returncode
    summary = {row["document"]: row for row in parquet.read_table(out / "summary.parquet").to_pylist()}
    members = read_tar((out / "archive.tar").read_bytes())
    texts = parquet.read_table(out / "table.parquet")["text"].to_pylist() if rows else []
    results = {
        "file": {document: ((out / document).read_bytes(), summary[str(folder / document)]) for document in files},
        "member": {document: (members[document], summary[f"{folder}/archive.tar!{document}"]) for document in files},
        "row": {
            document: (text.encode(), summary[f"{folder}/table.parquet#{number}"])
            for number, (document, text) in enumerate(zip(rows, texts, strict=True), 1)
        },
    }
    return results, done.returncode


def counts_of(record):
    """The counts of a record, under the names of the batch summary."""
    summary = record["summary"]
    return {name: summary[name] for name in ("lost", "restored", "confident", "unfilled")}
