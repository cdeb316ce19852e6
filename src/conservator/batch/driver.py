"""The driver of a batch: it reads, asks the engine, writes down what came, and writes the files that are whole."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from conservator.batch.engine import DocumentResult, Engine, Task
from conservator.batch.files import TextFile
from conservator.batch.inputs import Inputs
from conservator.batch.items import DamagedInputError, InputFile, Item, hash_file
from conservator.batch.ledger import Ledger, LedgerError, Place, WrittenFile, shown
from conservator.batch.output_folder import PARTS, REFERENCES, KeptError, UnwritableError, clean, locked, putting, whose
from conservator.batch.overview import OVERVIEW, write_overview
from conservator.batch.summary import summary_name, write_summary
from conservator.batch.totals import Totals, sum_up
from conservator.errors import ConservatorError

Tell = Callable[[int, int], None]  # called with the documents that are done, and all of them
NAMED = 3  # files that an error names
NOT_WRITTEN = ""  # in place of the hash of a result: whatever stands in its place is not ours


@dataclass
class OpenFile:
    """A file whose documents are being restored.

    Attributes:
        input_file: the input.
        source: the hash of its content.
        waiting: how many of its documents are not done yet.
        is_read: whether all its documents have been seen.
        gave_up: whether any of them was given up.
        is_cut: whether any of them is too large.
        leaves: whether it is left out of the results: a file that was found, and is not text.
        problem: what is wrong with the whole file, or "".
    """

    input_file: InputFile
    source: str
    waiting: int = 0
    is_read: bool = False
    gave_up: bool = False
    is_cut: bool = False
    leaves: bool = False
    problem: str = ""


@dataclass
class Batch:
    """A batch: inputs, an engine and a folder of results.

    Attributes:
        inputs: what is restored.
        engine: who restores it.
        config: the hash of the configuration.
        limits: the limits of a document, in words: what was given up under others is tried again.
        force: files in the folder of the results that are not ours, or were changed, may be overwritten.
        retry: documents that were given up are tried again.
        prepare: is called before the first document is restored, if there is one.
        tell: is told how many documents are done.
        kept: how many files were not written because somebody else has made or changed them.
        tried: how many documents were restored in this run.
    """

    inputs: Inputs
    engine: Engine
    config: str
    limits: str = ""
    force: bool = False
    retry: bool = False
    prepare: Callable[[], None] = lambda: None
    tell: Tell = lambda done, total: None
    kept: int = field(default=0, init=False)
    tried: int = field(default=0, init=False)
    _asked: dict[int, str] = field(default_factory=dict, init=False)
    _waiting: dict[str, list[OpenFile]] = field(default_factory=dict, init=False)
    _seen: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def run(self) -> Totals:
        """Restore what is not done yet; the numbers are about everything."""
        with self._opened() as ledger:
            self._survey(ledger)
            with closing(self.engine.run(self._tasks(ledger))) as results:
                for number, done in results:
                    self._receive(ledger, number, done)
            self._write_tables(ledger)
            ledger.forget_data()
            clean(self.out, REFERENCES)
            return sum_up(ledger.rows())

    @property
    def out(self) -> Path:
        """The folder of the results."""
        return self.inputs.out

    @contextmanager
    def _opened(self) -> Iterator[Ledger]:
        """The ledger, with the folder locked; what a killed run has left is removed."""
        with locked(self.out):
            clean(self.out)
            with closing(Ledger(self.out)) as ledger:
                try:
                    yield ledger
                finally:
                    clean(self.out, PARTS)

    def _survey(self, ledger: Ledger) -> None:
        """Find all files before any work: two that would become one, and those that stand in the way."""
        clashes = []
        for target in (summary_name(), OVERVIEW):
            state = whose(self.out, target, ledger)
            ledger.expect(target, "the summary of the batch", state)
            if state == "else" and not self.force:
                clashes.append(self.out / target)
        for input_file in self.inputs.input_files():
            place = self.out / input_file.target
            if place.exists() and place.samefile(input_file.path):
                raise ConservatorError(
                    f"{shown(str(input_file.path))} would be overwritten by its restoration; choose another --out"
                )
            state = whose(self.out, input_file.target, ledger)
            other = ledger.expect(input_file.target, str(input_file.path), state)
            if other is not None:
                names = f"{other} and {shown(str(input_file.path))}"
                raise ConservatorError(f"{names} would both become {shown(str(place))}; --ignore leaves one out")
            if state == "else" and not self.force and not self._is_done(ledger, input_file):
                clashes.append(place)
            try:
                if not os.access(input_file.path, os.R_OK) and not input_file.found:
                    raise ConservatorError(f"cannot read {shown(str(input_file.path))}: no permission")
                self._total += input_file.count()
            except DamagedInputError:
                self._total += 1
            except (ConservatorError, OSError):
                if not input_file.found:
                    raise  # the user named it, and should know now
                self._total += 1
        if clashes:
            named = ", ".join(shown(str(one)) for one in clashes[:NAMED])
            more = f" and {len(clashes) - NAMED} more" if len(clashes) > NAMED else ""
            raise ConservatorError(
                f"cannot write {named}{more}: not written by a batch, or changed since; --force overwrites"
            )
        if not self._total:
            raise ConservatorError(f"no documents in {', '.join(shown(str(one)) for one in self.inputs.paths)}")

    def _is_done(self, ledger: Ledger, input_file: InputFile) -> bool:
        """Whether a file was completed from the same content and configuration."""
        known = ledger.file(input_file.target)
        return known is not None and known.config == self.config and known.source == hash_file(input_file.path)

    def _tasks(self, ledger: Ledger) -> Iterator[Task]:
        """The documents that are not done, read one after the other."""
        number = 0
        for input_file in self.inputs.input_files():
            if ledger.state(input_file.target) is None:
                continue  # it came after the survey: the next run takes it
            try:
                source = hash_file(input_file.path)
            except OSError as error:  # it may not be read, or is gone: it cannot even be copied
                problem = f"cannot read it: {error.strerror}"
                self._finish(ledger, OpenFile(input_file, "", is_read=True, leaves=True, problem=problem))
                self._count(1)
                continue
            if self._is_complete(ledger, input_file, source):
                self._count(ledger.number_of(input_file.target))
                continue
            file = OpenFile(input_file, source)
            try:
                for item in input_file.items():
                    if self._needs_work(ledger, file, item):
                        if not number:
                            self.prepare()
                        number += 1
                        self._asked[number] = item.key
                        yield Task(number, item.data or b"", item.is_text)
            except LedgerError:
                raise
            except (ConservatorError, OSError) as error:
                file.problem = str(error)
            file.is_read = True
            self._finish(ledger, file)

    def _is_complete(self, ledger: Ledger, input_file: InputFile, source: str) -> bool:
        """Whether a file of the results stays as it is."""
        known = ledger.file(input_file.target)
        if known is None or known.source != source or known.config != self.config:
            return False
        if known.gave_up and (self.retry or known.gave_up != self.limits_or_none):
            return False
        state = ledger.state(input_file.target)
        if state == "else" and not self.force:
            self.kept += 1
            return True
        return known.written is None or (state == "ours" and is_settled(known, self.out / input_file.target))

    @property
    def limits_or_none(self) -> str:
        """The limits, in words."""
        return self.limits or "none"

    def _needs_work(self, ledger: Ledger, file: OpenFile, item: Item) -> bool:
        """Whether a document has to be sent to the engine; if it is there already, its file waits for it."""
        if item.data is None:
            file.is_cut |= item.size > self.inputs.largest
            self._count(1)
            return False
        if item.key in self._waiting:
            self._waiting[item.key].append(file)
            file.waiting += 1
            return False
        done = ledger.find(item.key, self.config)
        if done is not None and ledger.has_data(item.key, self.config) and not self._again(ledger, item.key, done):
            self._note(file, done)
            return False
        self._waiting[item.key] = [file]
        file.waiting += 1
        return True

    def _again(self, ledger: Ledger, key: str, done: DocumentResult) -> bool:
        """Whether a document that was given up is tried again."""
        return done.gave_up and (self.retry or ledger.limits_of(key, self.config) != self.limits_or_none)

    def _receive(self, ledger: Ledger, number: int, done: DocumentResult) -> None:
        """Write down a result, and finish the files that waited for it alone."""
        key = self._asked.pop(number)
        ledger.record(key, self.config, done, self.limits_or_none)
        self.tried += 1
        for file in self._waiting.pop(key):
            file.waiting -= 1
            self._note(file, done)
            self._finish(ledger, file)

    def _note(self, file: OpenFile, done: DocumentResult) -> None:
        file.gave_up |= done.gave_up
        file.leaves |= done.binary and file.input_file.found and isinstance(file.input_file, TextFile)
        self._count(1)

    def _count(self, number: int) -> None:
        self._seen += number
        self.tell(self._seen, self._total)

    def _finish(self, ledger: Ledger, file: OpenFile) -> None:
        """Write a file, if all its documents are done."""
        if file.waiting or not file.is_read:
            return
        gave_up = self.limits_or_none if file.gave_up or file.is_cut else ""
        written = None
        while not file.leaves:
            try:
                written = self._write(ledger, file)
                break
            except KeptError as error:
                self.kept += 1
                file.problem, written = str(error), NOT_WRITTEN
                break
            except UnreadableInputError as error:  # it is copied; what cannot even be copied is left out
                file.problem, file.leaves = str(error), bool(file.problem)
        known = WrittenFile(file.source, self.config, gave_up, written)
        ledger.complete(file.input_file.target, known, positions_of(file))

    def _write(self, ledger: Ledger, file: OpenFile) -> str:
        """Write a file of the results; return its hash. A file with a problem is copied as it is."""
        input_file: InputFile = file.input_file
        if file.problem:
            input_file = TextFile(input_file.path, input_file.target, input_file.found, largest=-1)
        with putting(self.out, input_file.target, ledger, input_file.path, force=self.force) as part:
            try:
                input_file.write(part.handle, lambda key: ledger.data(key, self.config))
                part.handle.flush()
                input_file.check(part.path, lambda key: ledger.data(key, self.config))
            except (UnwritableError, LedgerError):
                raise
            except (ConservatorError, OSError) as error:
                raise UnreadableInputError(str(error)) from error
        known = ledger.file(input_file.target)
        return known.coming if known is not None and known.coming is not None else ""

    def _write_tables(self, ledger: Ledger) -> None:
        """Write the summary and the overview."""
        for target, write in ((summary_name(), write_summary), (OVERVIEW, write_overview)):
            try:
                with putting(self.out, target, ledger, force=self.force) as part:
                    write(part.handle, ledger)
            except KeptError:
                self.kept += 1
                continue
            known = ledger.file(target)
            if known is not None and known.coming is not None:
                ledger.complete(target, WrittenFile("", "", "", known.coming), ())


class UnreadableInputError(ConservatorError):
    """An input cannot be read when its result is written, or the result would not be right."""


def is_settled(known: WrittenFile, place: Path) -> bool:
    """Whether what stands in a place is what was written there last."""
    return known.coming is None or hash_file(place) == known.written


def positions_of(file: OpenFile) -> Iterator[Place]:
    """The documents of a file, or the file itself if it could not be read."""
    if file.problem:
        path = file.input_file.path
        yield Place(str(path), path.stat().st_size if path.exists() else 0, f"{file.source}-", file.problem)
        return
    with suppress(ConservatorError, OSError):  # it is gone by now: it is in its place, and the next run will see
        for item in file.input_file.items():
            yield Place(item.name, item.size, item.key if item.data is not None else f"{item.key}-", item.problem)
