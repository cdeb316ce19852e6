"""Input files of a batch: read lazily, and written with only the restored documents changed."""

import bz2
import gzip
import io
import json
import lzma
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.batch import Inputs
from conservator.batch.inputs import matches
from conservator.batch.items import DamagedInputError, OutputFile, content_key
from conservator.batch.jsonl import find_field, with_field
from conservator.errors import ConservatorError


def input_files(tmp_path, *paths, **changes):
    return list(Inputs([tmp_path / path for path in paths], tmp_path / "out", **changes).input_files())


def rewritten(input_file, change=lambda data: data.replace(b"?", b"!")):
    """The file with changed documents."""
    new = {item.key: change(item.data) for item in input_file.read() if item.data is not None}
    return written(input_file, new.get)


def written(input_file, restored):
    """The output file."""
    path = input_file.path.with_name("new")
    with input_file.path.open("rb") as source, path.open("wb") as handle:
        input_file.write(source, OutputFile(handle), restored)
    return path.read_bytes()


def test_a_folder_is_walked_in_order_without_hidden_ignored_and_own_files(tmp_path):
    for name in (
        "in/b.md",
        "in/a.md",
        "in/sub/c.md",
        "in/.git/x.md",
        "in/.y.md",
        "in/drafts/d.md",
        "in/e.txt",
        "in/out/f.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "round").symlink_to(tmp_path / "in" / "round")
    inputs = Inputs([tmp_path / "in"], tmp_path / "in" / "out", include=["*.md"], ignore=["drafts"])
    assert [file.target for file in inputs.input_files()] == ["a.md", "b.md", "sub/c.md"]
    assert (inputs.hidden_count, inputs.ignored_count) == (2, 2)


def test_several_inputs_keep_their_names(tmp_path):
    for name in ("one/a.md", "two/a.md", "b.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [file.target for file in input_files(tmp_path, "one", "two", "b.md")] == ["one/a.md", "two/a.md", "b.md"]
    assert [file.target for file in input_files(tmp_path, "one")] == ["a.md"]


def test_invalid_inputs_are_rejected(tmp_path):
    with pytest.raises(ConservatorError, match="cannot read"):
        input_files(tmp_path, "none")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConservatorError, match="both an input and the output folder"):
        input_files(tmp_path, "out")


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [("a/b.md", "*.md", True), ("a/b.md", "a/*", True), ("a/b.md", "b", False), ("a", "a/", True), ("ba", "a", False)],
)
def test_patterns_match_names_or_relative_paths(path, pattern, expected):
    assert matches(path, [pattern]) == expected


def test_a_file_above_the_size_limit_is_copied(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"what?" * 10)
    (large,) = input_files(tmp_path, "a.txt", max_bytes=49)
    (item,) = large.read()
    assert item.data is None
    assert "50 bytes" in item.problem
    assert rewritten(large) == b"what?" * 10
    (small,) = input_files(tmp_path, "a.txt", max_bytes=50)
    assert rewritten(small) == b"what!" * 10


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(
    record=st.dictionaries(st.text(), VALUES), old=st.text(), new=st.text(), plain=st.booleans(), indent=st.booleans()
)
def test_only_the_field_of_a_line_changes(record, old, new, plain, indent):
    separators = (" ,\t", " : ") if indent else None
    line = json.dumps({**record, "text": old}, ensure_ascii=plain, separators=separators).encode(errors="surrogatepass")
    try:
        line.decode()
        new.encode()
    except UnicodeError:
        return
    changed = with_field(line, "text", new)
    assert json.loads(changed) == {**record, "text": new}
    start, stop = find_field(line.decode(), "text")
    tail = line.decode()[stop:]
    assert changed.decode().startswith(line.decode()[:start])
    assert changed.decode().endswith(tail)


@pytest.mark.parametrize("packed", [False, True])
def test_lines_that_are_not_restored_stay_byte_for_byte(tmp_path, packed):
    lines = [
        b'{"n": 1.0e2, "text": "why?", "z": [1 , 2]}\r\n',
        b"\n",
        b"not json\n",
        b'{"other": 1}\n',
        b'{"text": 5}\n',
    ]
    lines += [b'{"text": "half \\ud800"}\n', b'{"text":"\xc3\xa4?"}']
    name = "t.jsonl.gz" if packed else "t.jsonl"
    data = b"".join(lines)
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    (input_file,) = input_files(tmp_path, name)
    assert input_file.inspect() is None
    assert [item.data for item in input_file.read()] == [b"why?", None, None, None, None, "ä?".encode()]
    assert [item.name.rpartition("#")[2] for item in input_file.read()] == ["1", "3", "4", "5", "6", "7"]
    out = rewritten(input_file)
    assert rewritten(input_file) == out
    lines[0], lines[-1] = lines[0].replace(b"why?", b"why!"), '{"text":"ä!"}'.encode()
    assert (gzip.decompress(out) if packed else out) == b"".join(lines)


def test_a_table_without_the_field_is_rejected(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"body": "x"}\n')
    (input_file,) = input_files(tmp_path, "t.jsonl")
    with pytest.raises(ConservatorError, match=r"no field 'text' \(fields: body\); --field selects the field"):
        input_file.inspect()


def test_a_damaged_table_is_an_error(tmp_path):
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"text": "x"}\n' * 1000)[:-20])
    (input_file,) = input_files(tmp_path, "t.jsonl.gz")
    with pytest.raises(ConservatorError, match="cannot read"):
        list(input_file.read())


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_keeps_everything_but_its_documents(tmp_path, mode):
    name = "a.tar" if mode == "w" else "a.tgz"
    with tarfile.open(tmp_path / name, mode, format=tarfile.PAX_FORMAT) as archive:
        for member, data in [
            ("../up.txt", b"one?"),
            ("/abs.txt", b"two?"),
            ("x" * 200, b"three" * 30),
            ("big", b"?" * 99),
        ]:
            info = tarfile.TarInfo(member)
            info.size, info.mtime, info.mode = len(data), 1234.5, 0o640
            info.pax_headers = {"size": str(len(data))} if member == "../up.txt" else {}
            archive.addfile(info, io.BytesIO(data))
        for kind, member in [(tarfile.SYMTYPE, "link"), (tarfile.DIRTYPE, "folder"), (tarfile.LNKTYPE, "hard")]:
            info = tarfile.TarInfo(member)
            info.type, info.linkname = kind, "/abs.txt"
            archive.addfile(info)
    (input_file,) = input_files(tmp_path, name, max_bytes=90)
    assert input_file.inspect() is None
    assert [item.data for item in input_file.read()] == [b"one?", b"two?", None, None]
    out = rewritten(input_file, lambda data: data.replace(b"?", b" and more"))
    assert not (tmp_path.parent / "up.txt").exists()
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        members = archive.getmembers()
        assert [member.name for member in members[:2]] == ["../up.txt", "/abs.txt"] or members[1].name == "abs.txt"
        assert [member.type for member in members[4:]] == [tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE]
        assert {member.mtime for member in members[:4]} == {1234.5}
        assert [archive.extractfile(member).read() for member in members[:4]] == [
            b"one and more",
            b"two and more",
            b"three" * 30,
            b"?" * 99,
        ]


def header(name, kind=tarfile.REGTYPE, size=0, changes=()):
    """An old GNU header, with the fields that other formats do not have."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for offset, data in changes:
        block[offset : offset + len(data)] = data
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def sparse(name, size):
    """A sparse file with one byte of data and a hole."""
    start = f"{0:011o}\0{1:011o}\0".encode()
    end = f"{size:011o}\0{0:011o}\0".encode()
    return header(name, tarfile.GNUTYPE_SPARSE, 1, [(386, start + end), (483, f"{size:011o}\0".encode())]) + padded(
        b"?"
    )


def padded(data):
    return data + bytes(-len(data) % 512)


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, member.type, member.size) for member in archive]


END = bytes(1024)


@pytest.mark.parametrize("kind", [b"D", b"M", b"V", b"A", b"Z", b"N"])
def test_members_of_other_types_keep_their_content(tmp_path, kind):
    times = [(345, b"15277207142\0")]  # other headers have the prefix of the name there
    other = header("src/", kind, 9, times) + padded(b"Ya.txt\0\0?")
    text, link = header("src/a.txt", size=4, changes=times) + padded(b"lost"), header("src/l", tarfile.SYMTYPE)
    whole = header("src/b.txt", size=4, changes=times) + padded(b"kept")
    (tmp_path / "a.tar").write_bytes(other + text + link + other + whole + END)
    (input_file,) = input_files(tmp_path, "a.tar")
    assert [(item.name.partition("!")[2], item.data) for item in input_file.read()] == [
        ("src/a.txt", b"lost"),
        ("src/b.txt", b"kept"),
    ]
    output = written(input_file, {content_key(b"lost"): b"found?"}.get)
    assert output.startswith(other)
    assert output.endswith(link + other + whole + END)
    changed = output[len(other) : -len(link + other + whole + END)]
    assert members(changed + END) == [("src/a.txt", tarfile.REGTYPE, 6)]
    assert b"found?" in changed


def test_an_archive_without_restored_files_stays_byte_for_byte(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", pax_headers={"comment": "of all"}) as archive:
        for name in ("a", "\u00e4" * 90):
            archive.addfile(tarfile.TarInfo(name))
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes() + bytes(3000))
    (input_file,) = input_files(tmp_path, "a.tar")
    assert written(input_file, lambda key: None) == (tmp_path / "a.tar").read_bytes()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_an_archive_keeps_its_compression_and_may_be_compressed_in_parts(tmp_path, pack):
    first, second = header("a", size=2) + padded(b"a?"), header("b", size=2) + padded(b"b?")
    (tmp_path / "a.tar").write_bytes(pack(first) + pack(second + END))
    (input_file,) = input_files(tmp_path, "a.tar")
    assert [item.data for item in input_file.read()] == [b"a?", b"b?"]
    out = rewritten(input_file)
    assert out[:3] == pack(b"")[:3]
    assert members(out) == [("a", tarfile.REGTYPE, 2), ("b", tarfile.REGTYPE, 2)]


def test_holes_are_not_written(tmp_path):
    large = header("first", size=1) + padded(b"?") + sparse("large", 2**31) + sparse("small", 1000) + END
    (tmp_path / "a.tar").write_bytes(large)
    (input_file,) = input_files(tmp_path, "a.tar")
    assert [item.size for item in input_file.read()] == [1, 2**31, 1000]
    out = rewritten(input_file)
    assert len(out) <= len(large) + 1024
    assert members(out) == [("first", tarfile.REGTYPE, 1), ("large", b"S", 2**31), ("small", tarfile.REGTYPE, 1000)]
    (tmp_path / "a.tar").write_bytes(b"".join(sparse(str(number), 16 * 2**20) for number in range(17)) + END)
    with pytest.raises(DamagedInputError, match="sparse files have more than 268,435,456 bytes with their holes"):
        list(input_file.read())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:1024] + b"?" + data[1025:], "a header is damaged or truncated: bad checksum"),
        (lambda data: data[:1100], "a header is damaged or truncated: truncated header"),
        (lambda data: data[:1600], "unexpected end of data"),
        (lambda data: data + bytes(2**20) + data, "data after the end of the archive"),
        (lambda data: data[:1024] + bytes(512) + data[1536:], "data after the end of the archive"),
        (lambda data: header("long", tarfile.XHDTYPE, 2**21) + bytes(2**21) + data, "a header has 2,097,152 bytes"),
        (lambda data: gzip.compress(data)[:-8] + bytes(8), "CRC check failed"),
        (lambda data: header("c", tarfile.LNKTYPE, 512) + b"?" * 512 + data, "a header is damaged"),
    ],
)
def test_a_damaged_archive_is_an_error(tmp_path, damage, message):
    data = header("a", size=2) + padded(b"a?") + header("b", size=600) + padded(b"b" * 600) + END
    (tmp_path / "a.tar").write_bytes(damage(data))
    (input_file,) = input_files(tmp_path, "a.tar")
    for use in (lambda: list(input_file.read()), lambda: written(input_file, lambda key: b"restored")):
        with pytest.raises(DamagedInputError, match=f"cannot read .*a.tar: {message}"):
            use()


def test_a_written_archive_is_compared_with_its_input(tmp_path, monkeypatch):
    data = header("a", size=2) + padded(b"a?") + header("b", size=2) + padded(b"b?") + END
    (tmp_path / "a.tar").write_bytes(data)
    (input_file,) = input_files(tmp_path, "a.tar")
    output, restored = rewritten(input_file), {content_key(b"a?"): b"a!", content_key(b"b?"): b"b!"}.get
    flush = OutputFile.flush
    for wrong in (
        data,
        header("a", size=2) + padded(b"a!") + END,
        output.replace(b"b!", b"?!"),
        output[:-1024] + output,
    ):
        monkeypatch.setattr(OutputFile, "flush", lambda self, wrong=wrong: (flush(self), self.path.write_bytes(wrong)))
        with pytest.raises(ConservatorError, match="would be damaged"):
            written(input_file, restored)


def test_a_long_line_is_copied_in_chunks(tmp_path, monkeypatch):
    long = b'{"text": "' + b"?" * 5000 + b'"}\n'
    data = b'{"text": "a?"}\n' + long + b'{"text": "b?"}\n' + long[:-1]
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(data))
    (input_file,) = input_files(tmp_path, "t.jsonl.gz", max_bytes=100)
    read = []
    readline = gzip.GzipFile.readline
    monkeypatch.setattr(gzip.GzipFile, "readline", lambda *args: read.append(args[1]) or readline(*args))
    assert input_file.inspect() is None
    items = list(input_file.read())
    assert [item.data for item in items] == [b"a?", None, b"b?", None]
    assert [item.size for item in items] == [2, len(long), 2, len(long) - 1]
    assert items[1].problem == f"too large: {len(long):,} bytes; --max-bytes is 100"
    assert gzip.decompress(rewritten(input_file)) == data.replace(b'a?"', b'a!"').replace(b'b?"', b'b!"')
    assert set(read) == {101}


def test_a_table_of_columns_keeps_everything_but_its_texts(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    schema = arrow.schema([("n", arrow.int32()), arrow.field("text", arrow.large_string(), metadata={"a": "b"})])
    table = arrow.table({"n": range(5), "text": ["a?", None, "b", "?" * 99, "c?"]}, schema=schema)
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2, compression="gzip")
    (input_file,) = input_files(tmp_path, "t.parquet", max_bytes=90)
    assert input_file.inspect() == 5
    assert [item.data for item in input_file.read()] == [b"a?", None, b"b", None, b"c?"]
    out = parquet.ParquetFile(io.BytesIO(rewritten(input_file)))
    assert out.schema_arrow.equals(schema, check_metadata=True)
    assert out.metadata.num_row_groups == 3
    assert out.metadata.row_group(0).column(0).compression == "GZIP"
    assert out.read().to_pydict() == {"n": list(range(5)), "text": ["a!", None, "b", "?" * 99, "c!"]}
    (input_file,) = input_files(tmp_path, "t.parquet", column="n")
    with pytest.raises(ConservatorError, match="must hold text, but holds int32"):
        input_file.inspect()
    (input_file,) = input_files(tmp_path, "t.parquet", column="body")
    with pytest.raises(ConservatorError, match=r"no column 'body' \(columns: n, text\)"):
        input_file.inspect()
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ConservatorError, match="cannot read"):
        input_file.inspect()


def test_a_table_is_read_a_few_rows_at_a_time(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.table({"text": ["x" * 1000 + "?"] * 100, "n": range(100)})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=60)  # the dictionary stores each value once
    monkeypatch.setattr("conservator.batch.parquet.MAX_BATCH_BYTES", 8000)
    batches, read = [], parquet.ParquetFile.iter_batches

    def iter_batches(*args, **options):
        for batch in read(*args, **options):
            batches.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", iter_batches)
    (input_file,) = input_files(tmp_path, "t.parquet")
    out = parquet.ParquetFile(io.BytesIO(rewritten(input_file)))
    assert max(batches) <= 8000
    groups = [out.metadata.row_group(number).num_rows for number in range(out.metadata.num_row_groups)]
    assert sum(groups) == 100
    assert max(groups) <= 7
    assert out.read().to_pydict() == {"text": ["x" * 1000 + "!"] * 100, "n": list(range(100))}


def test_a_table_with_a_too_large_column_is_rejected(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"text": ["x" * 10**6]}), tmp_path / "t.parquet", compression="zstd")
    monkeypatch.setattr("conservator.batch.parquet.MAX_CHUNK_BYTES", 10**5)
    (input_file,) = input_files(tmp_path, "t.parquet")
    with pytest.raises(
        DamagedInputError, match=r"the column 'text' has 1,000,\d+ bytes in one row group; the limit is"
    ):
        list(input_file.read())


def test_each_column_of_a_table_keeps_its_compression(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    expected = {"n": "SNAPPY", "text": "ZSTD", "many.list.element": "UNCOMPRESSED", "other": "GZIP"}
    table = arrow.table({"n": [1], "text": ["a?"], "many": [["x"]], "other": ["y"]})
    parquet.write_table(table, tmp_path / "t.parquet", compression={**expected, "many.list.element": "NONE"})
    (input_file,) = input_files(tmp_path, "t.parquet")
    group = parquet.ParquetFile(io.BytesIO(rewritten(input_file))).metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    assert {chunk.path_in_schema: chunk.compression for chunk in chunks} == expected
