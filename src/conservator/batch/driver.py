"""The driver of a batch: reads documents, sends them to the engine, records results and writes finished files."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from conservator.batch.engine import DocumentResult, Engine, Task
from conservator.batch.files import TextFile
from conservator.batch.inputs import Inputs
from conservator.batch.items import DamagedInputError, InputFile, Item, hash_file
from conservator.batch.ledger import DocumentEntry, Ledger, LedgerError, WrittenFile, display_text
from conservator.batch.output_folder import (
    PARTS,
    REFERENCES,
    Owner,
    ProtectedFileError,
    UnwritableError,
    atomic_output,
    locked,
    owner_of,
    remove_leftovers,
)
from conservator.batch.overview import OVERVIEW, write_overview
from conservator.batch.summary import summary_name, write_summary
from conservator.batch.totals import Totals, sum_results
from conservator.errors import ConservatorError

OnProgress = Callable[[int, int], None]  # called with the number of finished documents and the total
NAMED_FILES = 3  # files: listed in an error message [untuned]
NOT_WRITTEN = ""  # recorded instead of the hash of an output file that belongs to the user
NO_LIMITS = "none"  # recorded as the limits of a run without limits


@dataclass
class OpenFile:
    """An input file whose documents are being restored.

    Attributes:
        input_file: the input.
        source_sha256: the hash of its content.
        pending: number of its documents that are not done.
        fully_read: whether all its documents have been read.
        gave_up: whether any of its documents was given up.
        has_oversized: whether any of its documents exceeds ``max_bytes``.
        excluded: whether it has no output file: a file of a folder that is not text, or an unreadable file.
        problem: why the whole file cannot be restored, or "".
    """

    input_file: InputFile
    source_sha256: str
    pending: int = 0
    fully_read: bool = False
    gave_up: bool = False
    has_oversized: bool = False
    excluded: bool = False
    problem: str = ""


@dataclass
class Batch:
    """A batch: inputs, an engine and an output folder.

    Attributes:
        inputs: the input files.
        engine: restores the documents.
        config_hash: the hash of the configuration.
        limits: description of the time, memory and size limits; documents that were given up under other limits are
            tried again.
        force: overwrite files in the output folder that no batch wrote, or that were changed since.
        retry: try documents again that were given up.
        prepare: called once before the first document is restored; not called if there is none.
        on_progress: called with the number of finished documents and the total.
        protected_files: number of files that were not written because the user created or changed them.
        processed: number of documents that were restored in this run.
    """

    inputs: Inputs
    engine: Engine
    config_hash: str
    limits: str = NO_LIMITS
    force: bool = False
    retry: bool = False
    prepare: Callable[[], None] = lambda: None
    on_progress: OnProgress = lambda done, total: None
    protected_files: int = field(default=0, init=False)
    processed: int = field(default=0, init=False)
    _keys: dict[int, str] = field(default_factory=dict, init=False)  # task number -> key of the document
    _files_by_key: dict[str, list[OpenFile]] = field(default_factory=dict, init=False)  # files that wait for a document
    _done: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Replace an empty description of the limits."""
        self.limits = self.limits or NO_LIMITS

    def run(self) -> Totals:
        """Restore all documents that are not done; return the totals of all runs."""
        with self._open_ledger() as ledger:
            self._check_outputs(ledger)
            with closing(self.engine.run(self._tasks(ledger))) as results:
                for number, result in results:
                    self._receive(ledger, number, result)
            self._write_tables(ledger)
            ledger.drop_data()
            remove_leftovers(self.out, REFERENCES)
            return sum_results(ledger.rows())

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.inputs.out

    @contextmanager
    def _open_ledger(self) -> Iterator[Ledger]:
        """Lock the output folder, remove leftovers of a killed run, and open the ledger."""
        with locked(self.out):
            remove_leftovers(self.out)
            with closing(Ledger(self.out)) as ledger:
                try:
                    yield ledger
                finally:
                    remove_leftovers(self.out, PARTS)

    def _check_outputs(self, ledger: Ledger) -> None:
        """Detect output name clashes and files that would be overwritten; count the documents."""
        conflicts = []
        for target in (summary_name(), OVERVIEW):
            owner = owner_of(self.out, target, ledger)
            ledger.register(target, "the summary of the batch", owner)
            if owner == Owner.USER and not self.force:
                conflicts.append(self.out / target)
        for input_file in self.inputs.input_files():
            path = self.out / input_file.target
            input_name = display_text(str(input_file.path))
            if path.exists() and path.samefile(input_file.path):
                raise ConservatorError(f"the output would overwrite the input {input_name}; choose another --out")
            owner = owner_of(self.out, input_file.target, ledger)
            other_input = ledger.register(input_file.target, str(input_file.path), owner)
            if other_input is not None:
                raise ConservatorError(
                    f"{other_input} and {input_name} have the same output file {display_text(str(path))}; exclude one "
                    "of them with --ignore"
                )
            if owner == Owner.USER and not self.force and not self._is_done(ledger, input_file):
                conflicts.append(path)
            try:
                if not os.access(input_file.path, os.R_OK) and not input_file.from_folder:
                    raise ConservatorError(f"cannot read {input_name}: no permission")
                self._total += input_file.count()
            except DamagedInputError:
                self._total += 1
            except (ConservatorError, OSError):
                if not input_file.from_folder:
                    raise  # the user named this file: report the problem before any work
                self._total += 1
        if conflicts:
            names = ", ".join(display_text(str(path)) for path in conflicts[:NAMED_FILES])
            more = f" and {len(conflicts) - NAMED_FILES} more" if len(conflicts) > NAMED_FILES else ""
            raise ConservatorError(
                f"cannot write {names}{more}: the file was not written by this batch, or was changed since; --force "
                "overwrites it"
            )
        if not self._total:
            raise ConservatorError(
                f"no documents in {', '.join(display_text(str(path)) for path in self.inputs.paths)}"
            )

    def _is_done(self, ledger: Ledger, input_file: InputFile) -> bool:
        """Whether a file was completed from the same content and configuration."""
        record = ledger.file(input_file.target)
        return (
            record is not None
            and record.config_hash == self.config_hash
            and record.source_sha256 == hash_file(input_file.path)
        )

    def _tasks(self, ledger: Ledger) -> Iterator[Task]:
        """Yield the documents that are not done; they are read one at a time."""
        number = 0
        for input_file in self.inputs.input_files():
            if ledger.owner(input_file.target) is None:
                continue  # created after ``_check_outputs``: the next run restores it
            try:
                source_sha256 = hash_file(input_file.path)
            except OSError as error:  # not readable, or deleted: it cannot be copied either
                problem = f"cannot read the file: {error.strerror}"
                self._finish(ledger, OpenFile(input_file, "", fully_read=True, excluded=True, problem=problem))
                self._advance(1)
                continue
            if self._is_complete(ledger, input_file, source_sha256):
                self._advance(ledger.count_documents(input_file.target))
                continue
            file = OpenFile(input_file, source_sha256)
            try:
                for item in input_file.items():
                    if self._needs_work(ledger, file, item):
                        if not number:
                            self.prepare()
                        number += 1
                        self._keys[number] = item.key
                        yield Task(number, item.data or b"", item.is_text)
            except LedgerError:
                raise
            except (ConservatorError, OSError) as error:
                file.problem = str(error)
            file.fully_read = True
            self._finish(ledger, file)

    def _is_complete(self, ledger: Ledger, input_file: InputFile, source_sha256: str) -> bool:
        """Whether an output file needs no work."""
        record = ledger.file(input_file.target)
        if record is None or record.source_sha256 != source_sha256 or record.config_hash != self.config_hash:
            return False
        if record.gave_up_under and (self.retry or record.gave_up_under != self.limits):
            return False
        owner = ledger.owner(input_file.target)
        if owner == Owner.USER and not self.force:
            self.protected_files += 1
            return True
        return record.written_sha256 is None or (
            owner == Owner.BATCH and is_settled(record, self.out / input_file.target)
        )

    def _needs_work(self, ledger: Ledger, file: OpenFile, item: Item) -> bool:
        """Whether a document must be sent to the engine. If it was sent already, its file waits for the result."""
        if item.data is None:
            file.has_oversized |= item.size > self.inputs.max_bytes
            self._advance(1)
            return False
        if item.key in self._files_by_key:
            self._files_by_key[item.key].append(file)
            file.pending += 1
            return False
        result = ledger.find(item.key, self.config_hash)
        if (
            result is not None
            and ledger.has_data(item.key, self.config_hash)
            and not self._should_retry(ledger, item.key, result)
        ):
            self._add_result(file, result)
            return False
        self._files_by_key[item.key] = [file]
        file.pending += 1
        return True

    def _should_retry(self, ledger: Ledger, key: str, result: DocumentResult) -> bool:
        """Whether a document that was given up is tried again."""
        return result.gave_up and (self.retry or ledger.limits_of(key, self.config_hash) != self.limits)

    def _receive(self, ledger: Ledger, number: int, result: DocumentResult) -> None:
        """Record a result, and finish the files that have no other pending documents."""
        key = self._keys.pop(number)
        ledger.record(key, self.config_hash, result, self.limits)
        self.processed += 1
        for file in self._files_by_key.pop(key):
            file.pending -= 1
            self._add_result(file, result)
            self._finish(ledger, file)

    def _add_result(self, file: OpenFile, result: DocumentResult) -> None:
        file.gave_up |= result.gave_up
        file.excluded |= result.binary and file.input_file.from_folder and isinstance(file.input_file, TextFile)
        self._advance(1)

    def _advance(self, documents: int) -> None:
        self._done += documents
        self.on_progress(self._done, self._total)

    def _finish(self, ledger: Ledger, file: OpenFile) -> None:
        """Write a file if all its documents are done."""
        if file.pending or not file.fully_read:
            return
        gave_up_under = self.limits if file.gave_up or file.has_oversized else ""
        written_sha256 = None if file.excluded else self._write_or_copy(ledger, file)
        record = WrittenFile(file.source_sha256, self.config_hash, gave_up_under, written_sha256)
        ledger.complete(file.input_file.target, record, document_entries(file))

    def _write_or_copy(self, ledger: Ledger, file: OpenFile) -> str | None:
        """Write the restored file; if that fails, copy the input; if that fails too, exclude the file.

        Returns:
            The hash of the output file, NOT_WRITTEN if it belongs to the user, or None if the file is excluded.
        """
        while True:
            try:
                return self._write(ledger, file)
            except ProtectedFileError as error:
                self.protected_files += 1
                file.problem = str(error)
                return NOT_WRITTEN
            except UnreadableInputError as error:
                was_copy = bool(file.problem)
                file.problem = str(error)
                if was_copy:
                    file.excluded = True
                    return None

    def _write(self, ledger: Ledger, file: OpenFile) -> str:
        """Write an output file and return its hash. A file with a problem is copied unchanged."""
        input_file: InputFile = file.input_file
        if file.problem:
            input_file = TextFile(input_file.path, input_file.target, input_file.from_folder, max_bytes=-1)
        with atomic_output(self.out, input_file.target, ledger, input_file.path, force=self.force) as output:
            try:
                input_file.write(output.handle, lambda key: ledger.data(key, self.config_hash))
                output.handle.flush()
                input_file.check(output.path, lambda key: ledger.data(key, self.config_hash))
            except (UnwritableError, LedgerError):
                raise
            except (ConservatorError, OSError) as error:
                raise UnreadableInputError(str(error)) from error
        record = ledger.file(input_file.target)
        return record.pending_sha256 if record is not None and record.pending_sha256 is not None else ""

    def _write_tables(self, ledger: Ledger) -> None:
        """Write the summary and the overview."""
        for target, write in ((summary_name(), write_summary), (OVERVIEW, write_overview)):
            try:
                with atomic_output(self.out, target, ledger, force=self.force) as output:
                    write(output.handle, ledger)
            except ProtectedFileError:
                self.protected_files += 1
                continue
            record = ledger.file(target)
            if record is not None and record.pending_sha256 is not None:
                ledger.complete(target, WrittenFile("", "", "", record.pending_sha256), ())


class UnreadableInputError(ConservatorError):
    """An input cannot be read while its output is written, or the output would be wrong."""


def is_settled(record: WrittenFile, path: Path) -> bool:
    """Whether an output file is the version that was recorded as complete."""
    return record.pending_sha256 is None or hash_file(path) == record.written_sha256


def document_entries(file: OpenFile) -> Iterator[DocumentEntry]:
    """The documents of a file for the ledger, or the file itself if it could not be restored."""
    if file.problem:
        path = file.input_file.path
        size = path.stat().st_size if path.exists() else 0
        yield DocumentEntry(str(path), size, f"{file.source_sha256}-", file.problem)
        return
    with suppress(ConservatorError, OSError):  # the input was deleted after the output was written
        for item in file.input_file.items():
            key = item.key if item.data is not None else f"{item.key}-"
            yield DocumentEntry(item.name, item.size, key, item.problem)
