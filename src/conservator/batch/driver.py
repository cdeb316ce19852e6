"""The driver of a batch: reads documents, sends them to the engine, records results and writes finished files."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from conservator.batch.engine import DocumentResult, Engine, Task
from conservator.batch.inputs import Inputs, TextFile
from conservator.batch.items import DamagedInputError, InputFile, InputReader, Item, UnwritableError, hash_file
from conservator.batch.ledger import Ledger, LedgerError, WrittenFile, display_text
from conservator.batch.output_folder import (
    PARTS,
    REFERENCES,
    Owner,
    ProtectedFileError,
    atomic_output,
    locked,
    owner_of,
    remove_leftovers,
)
from conservator.batch.overview import OVERVIEW, write_overview
from conservator.batch.summary import summary_name, write_summary
from conservator.batch.totals import Totals, sum_results
from conservator.errors import ConservatorError

# called with the number of finished documents and the total, which is None while it is not known
OnProgress = Callable[[int, int | None], None]
NAMED_FILES = 3  # files: listed in an error message [untuned]
NOT_WRITTEN = ""  # recorded instead of the hash of an output file that belongs to the user
NO_LIMITS = "none"  # recorded as the limits of a run without limits
CHANGED = "the file changed during the run; run the batch again"


@dataclass
class OpenFile:
    """An input file whose documents are being restored.

    Attributes:
        input_file: the input.
        source_sha256: the hash of its content; "" if it is not known, or if the file changed during the run.
        is_complete: whether a previous run wrote its output from the same content and configuration.
        pending: number of its documents that are not done, and one more until all of them have been read.
        gave_up: whether any of its documents was given up, or exceeds ``max_bytes``.
        excluded: whether it has no output file: a file of a folder that is not text, or an unreadable file.
        problem: why the whole file cannot be restored, or "".
    """

    input_file: InputFile
    source_sha256: str = ""
    is_complete: bool = False
    pending: int = 1
    gave_up: bool = False
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
        on_progress: called with the number of finished documents and the total. The total is None until all documents
            have been read, if an input is a JSON Lines file or an archive.
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
    _total: int | None = field(default=0, init=False)

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
        """Detect clashes of output names, files that would be overwritten, and inputs that cannot be read."""
        conflicts, has_documents = [], False
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
            if owner == Owner.USER and not self.force:
                record = ledger.file(input_file.target)
                if record is None or record[:2] != (hash_file(input_file.path), self.config_hash):
                    conflicts.append(path)
            count = self._count(input_file)
            has_documents |= count != 0
            self._total = None if self._total is None or count is None else self._total + count
        if conflicts:
            names = ", ".join(display_text(str(path)) for path in conflicts[:NAMED_FILES])
            more = f" and {len(conflicts) - NAMED_FILES} more" if len(conflicts) > NAMED_FILES else ""
            raise ConservatorError(
                f"cannot write {names}{more}: the file was not written by this batch, or was changed since; --force "
                "overwrites it"
            )
        if not has_documents:
            raise ConservatorError(
                f"no documents in {', '.join(display_text(str(path)) for path in self.inputs.paths)}"
            )

    def _count(self, input_file: InputFile) -> int | None:
        """Count the documents of a file, as ``InputFile.inspect``; raise the problem of a file that the user named."""
        try:
            if not os.access(input_file.path, os.R_OK) and not input_file.from_folder:
                raise ConservatorError(f"cannot read {display_text(str(input_file.path))}: no permission")
            return input_file.inspect()
        except (ConservatorError, OSError) as error:
            if not input_file.from_folder and not isinstance(error, DamagedInputError):
                raise
            return 1  # the file itself, which is copied or excluded

    def _tasks(self, ledger: Ledger) -> Iterator[Task]:
        """Yield the documents that are not done; they are read one at a time."""
        number = 0
        for input_file in self.inputs.input_files():
            if ledger.owner(input_file.target) is None:
                continue  # created after ``_check_outputs``: the next run restores it
            file = OpenFile(input_file)
            for index, item in enumerate(self._read(ledger, file)):
                ledger.note(input_file.target, index, item)
                if self._needs_work(ledger, file, item):
                    if not number:
                        self.prepare()
                    number += 1
                    self._keys[number] = item.key
                    yield Task(number, item.data or b"", item.is_text)
            if file.is_complete:
                self._advance(ledger.count_documents(input_file.target))
                continue
            self._finish(ledger, file)
        self._total = self._done + sum(map(len, self._files_by_key.values()))

    def _read(self, ledger: Ledger, file: OpenFile) -> Iterator[Item]:
        """Read and hash an input file in one pass; yield its documents unless it is complete."""
        input_file, record = file.input_file, self._reusable_record(ledger, file.input_file.target)
        if record is not None and ledger.owner(input_file.target) == Owner.USER and not self.force:
            self.protected_files += 1
            file.is_complete = True  # ``_check_outputs`` has compared the hash of the input
            return
        try:
            with InputReader(input_file.path.open("rb", buffering=0)) as reader:
                if record is not None or input_file.random_access:
                    reader.spool(self.out / PARTS)
                if record is not None and record.source_sha256 == reader.sha256():
                    file.is_complete = True
                    return
                try:
                    yield from input_file.items(reader.source)
                except (ConservatorError, OSError) as error:
                    file.problem = str(error)
                file.source_sha256 = reader.sha256()
        except OSError as error:  # not readable, or deleted: it cannot be copied either
            file.problem, file.excluded = f"cannot read the file: {error.strerror}", True
            self._advance(1)

    def _reusable_record(self, ledger: Ledger, target: str) -> WrittenFile | None:
        """The record of an output file that needs no work if its input is unchanged; None if it needs work."""
        record, owner = ledger.file(target), ledger.owner(target)
        if record is None or not record.source_sha256 or record.config_hash != self.config_hash:
            return None
        if record.gave_up_under and (self.retry or record.gave_up_under != self.limits):
            return None
        if record.written_sha256 is None or (owner == Owner.USER and not self.force):
            return record
        if owner != Owner.BATCH or (record.pending_sha256 and hash_file(self.out / target) != record.written_sha256):
            return None
        return record

    def _needs_work(self, ledger: Ledger, file: OpenFile, item: Item) -> bool:
        """Whether a document must be sent to the engine. If it was sent already, its file waits for the result."""
        if item.data is None:
            file.gave_up |= item.size > self.inputs.max_bytes
            self._advance(1)
            return False
        if item.key in self._files_by_key:
            self._files_by_key[item.key].append(file)
            file.pending += 1
            return False
        result, limits = ledger.find(item.key, self.config_hash) or (None, "")
        if result is not None and not (result.gave_up and (self.retry or limits != self.limits)):
            self._add_result(file, result)
            return False
        self._files_by_key[item.key] = [file]
        file.pending += 1
        return True

    def _receive(self, ledger: Ledger, number: int, result: DocumentResult) -> None:
        """Record a result, and finish the files that have no other pending documents."""
        key = self._keys.pop(number)
        ledger.record(key, self.config_hash, result, self.limits)
        self.processed += 1
        for file in self._files_by_key.pop(key):
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
        """Count down what is pending in a file; write the file if nothing is."""
        file.pending -= 1
        if file.pending:
            return
        gave_up_under = self.limits if file.gave_up else ""
        written_sha256 = None if file.excluded else self._write_or_copy(ledger, file)
        if file.problem:  # the file as a whole is recorded instead of its documents
            path, target = file.input_file.path, file.input_file.target
            size = path.stat().st_size if path.exists() else 0
            ledger.forget(target)
            ledger.note(target, 0, Item(str(path), size, file.source_sha256, None, problem=file.problem))
        record = WrittenFile(file.source_sha256, self.config_hash, gave_up_under, written_sha256)
        ledger.complete(file.input_file.target, record)

    def _write_or_copy(self, ledger: Ledger, file: OpenFile) -> str | None:
        """Write the restored file; if that fails, copy the input; if that fails too, exclude the file.

        Returns:
            The hash of the output file, NOT_WRITTEN if it belongs to the user, or None if the file is excluded.
        """
        try:
            if not file.problem:
                try:
                    return self._write(ledger, file)
                except UnreadableInputError as error:
                    file.problem = str(error)
            return self._write(ledger, file, is_copy=True)
        except UnreadableInputError as error:
            file.problem, file.excluded = str(error), True
            return None
        except ProtectedFileError as error:
            self.protected_files += 1
            file.problem = str(error)
            return NOT_WRITTEN

    def _write(self, ledger: Ledger, file: OpenFile, *, is_copy: bool = False) -> str:
        """Write the restored file, or a copy of the input; return the hash of the output file."""
        path, target = file.input_file.path, file.input_file.target
        with atomic_output(self.out, target, ledger, path, force=self.force) as output:
            try:
                with InputReader(path.open("rb", buffering=0)) as reader:
                    if is_copy:
                        shutil.copyfileobj(reader.source, output)
                    else:
                        if file.input_file.random_access:
                            reader.spool(self.out / PARTS)
                        file.input_file.write(reader.source, output, lambda key: ledger.data(key, self.config_hash))
                    is_changed = reader.sha256() != file.source_sha256
            except (UnwritableError, LedgerError):
                raise
            except (ConservatorError, OSError) as error:
                raise UnreadableInputError(str(error)) from error
            if is_changed:
                file.source_sha256 = ""  # the next run restores the file
                if not is_copy:
                    raise UnreadableInputError(CHANGED)
        return output.sha256

    def _write_tables(self, ledger: Ledger) -> None:
        """Write the summary and the overview."""
        for target, write in ((summary_name(), write_summary), (OVERVIEW, write_overview)):
            try:
                with atomic_output(self.out, target, ledger, force=self.force) as output:
                    write(cast(BinaryIO, output), ledger)
            except ProtectedFileError:
                self.protected_files += 1
                continue
            ledger.complete(target, WrittenFile("", "", "", output.sha256))


class UnreadableInputError(ConservatorError):
    """An input cannot be read while its output is written, or the output would be wrong."""
