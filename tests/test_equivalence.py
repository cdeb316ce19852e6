"""A document is restored in the same way by the API, the command line, a batch and the server.

``support.equivalence`` lists the documents and the options. The outcome of the API is the reference for all others:
the bytes of the restored file, the record with its notices, and the error messages are the same.
"""

import json
import multiprocessing.context
import multiprocessing.forkserver
import os
import sys
from functools import cache
from importlib.util import find_spec

import pytest

import conservator
from conservator.options import RestoreOptions
from conservator.web.config import ServerConfig
from support.equivalence import (
    DOCUMENTS,
    FILES,
    LANGUAGE_MODEL,
    OPTIONS,
    counts_of,
    normalized,
    restore_by_api,
    restore_by_batch,
    restore_by_command,
    restore_by_server,
    without_cost,
)
from support.tiny import save_tiny
from support.web_server import running

CASES = [(name, document) for name, documents in DOCUMENTS.items() for document in documents]
each_case = pytest.mark.parametrize(("name", "document"), CASES, ids=[" ".join(case) for case in CASES])
FUNCTION_CASES = [("mask", "english.txt"), ("mask", "page.hocr"), ("mask best", "english.txt")]
CHANNELS = ("mask", "replacement", "ocr", "auto", "mojibake", "typing", "spaces", "case", "hyphenation", "leiden")
PARALLEL = (*CHANNELS, "mask best", "ocr best", "typing best")  # every channel and effort
PARALLEL_CASES = [case for case in CASES if case[0] in PARALLEL]


@pytest.fixture(scope="module", autouse=True)
def _forked_workers():
    """Fork workers from a process that has loaded the experts, because loading them in each takes seconds.

    Workers are spawned processes outside of this file, also in other tests.
    """
    contexts = multiprocessing.context._concrete_contexts
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setitem(contexts, "spawn", contexts["forkserver"])
        multiprocessing.set_forkserver_preload(["support.loaded_experts"])
        yield
        multiprocessing.forkserver._forkserver._stop()
        multiprocessing.set_forkserver_preload(["__main__"])


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """The folder of a tiny language model."""
    folder = tmp_path_factory.mktemp("language_model")
    save_tiny(folder)
    return str(folder)


@pytest.fixture(scope="module")
def options_of(language_model):
    """Name -> fields of RestoreOptions."""
    return {
        name: {field: language_model if value == LANGUAGE_MODEL else value for field, value in options.items()}
        for name, options in OPTIONS.items()
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all files."""
    folder = tmp_path_factory.mktemp("documents")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def expected(folder, options_of):
    """The outcome of the API, as a function of the options and the document."""
    restorer = cache(lambda name: conservator.Restorer(options=RestoreOptions(**options_of[name])))
    return cache(lambda name, document: restore_by_api(document, restorer(name), folder))


@pytest.fixture(scope="module")
def server(language_model):
    with running(ServerConfig(language_models=language_model)) as server:
        yield server


@pytest.fixture(scope="module")
def batches(tmp_path_factory, options_of):
    """The results of a batch, as a function of the options and further flags."""

    @cache
    def run(name, *flags):
        return restore_by_batch(name, options_of[name], tmp_path_factory.mktemp("batch"), *flags)

    return run


def check_batch(results, expected, document):
    """Compare the results of a batch with the outcome of the API."""
    (by_input, _), outcome = results, expected
    if isinstance(by_input, str):
        assert outcome.problem in by_input
        return
    inputs = ("file", "member") if document in FILES else ("row",)
    for data, row in (by_input[kind][document] for kind in inputs):
        if outcome.problem is not None:
            assert (row["outcome"], data) == ("copied", FILES[document])
            assert outcome.problem in normalized(row["reason"])
            continue
        assert data == outcome.data
        record, counts = outcome.record, counts_of(outcome.record)
        assert row["outcome"] == ("restored" if counts["lost"] else "undamaged")
        assert {field: row[field] for field in counts} == counts
        assert row["notices"] == ", ".join(notice["kind"] for notice in record["notices"])
        assert row["expected_accuracy"] == pytest.approx(record["summary"]["expected_accuracy"], abs=1e-4)
        if counts["lost"]:
            assert row["encoding"] == record["encoding"]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(("name", "document"), FUNCTION_CASES)
def test_the_function_restore_is_equivalent(name, document, as_bytes, expected, options_of, folder):
    restoration = conservator.restore(FILES[document] if as_bytes else folder / document, **options_of[name])
    assert without_cost(json.loads(restoration.to_json())) == expected(name, document).record


@each_case
def test_the_command_line_is_equivalent(name, document, expected, options_of, folder):
    if document == "hocr":
        pytest.skip("a file of this content is an OCR file")
    outcome, command = expected(name, document), restore_by_command(document, options_of[name], folder)
    assert command.status == DOCUMENTS[name][document]
    assert (command.data, command.record) == (outcome.data, outcome.record)
    if outcome.problem is not None:
        assert outcome.problem in command.problem
        assert outcome.option is None or f"--{outcome.option.replace('_', '-')}" in command.problem


@each_case
def test_the_server_is_equivalent(name, document, expected, options_of, server):
    assert restore_by_server(document, options_of[name], server) == expected(name, document)


@each_case
def test_a_batch_is_equivalent(name, document, expected, batches):
    check_batch(batches(name, "--jobs", "1"), expected(name, document), document)


@pytest.mark.parametrize(("name", "document"), PARALLEL_CASES, ids=lambda part: part)
def test_a_batch_with_two_workers_is_equivalent(name, document, expected, batches):
    check_batch(batches(name, "--jobs", "2"), expected(name, document), document)


@pytest.mark.skipif(find_spec("ray") is None, reason="pip install conservator[ray]")
@pytest.mark.parametrize(("name", "document"), PARALLEL_CASES, ids=lambda part: part)
def test_a_batch_with_ray_is_equivalent(name, document, expected, batches):
    check_batch(batches(name, "--engine", "ray", "--jobs", "2"), expected(name, document), document)


@pytest.mark.parametrize("document", ["page.hocr", "page.alto.xml", "page.tsv"])
def test_the_confidences_of_these_files_change_the_result(document, expected):
    text = expected("mask", document).record["text"]
    assert "that lie was" in text
    observed = "The witness stated that he had scen the man in tke street, and that lie was alone.\n"
    assert "that he was" in conservator.restore(observed, channel="ocr").text


@pytest.mark.parametrize(("name", "document"), [("mask", "english.txt"), ("ocr", "ocr.txt")])
def test_the_language_model_is_used(name, document, expected):
    assert expected(f"{name} best", document).record != expected(name, document).record
