"""What holds documents: files, tables and archives; read lazily, written with everything else as it was."""

import gzip
import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.batch import Inputs
from conservator.batch.inputs import matches
from conservator.batch.lines import find_field, with_field
from conservator.errors import ConservatorError


def holders(tmp_path, *paths, **changes):
    return list(Inputs([tmp_path / path for path in paths], tmp_path / "out", **changes).holders())


def rewritten(holder, change=lambda data: data.replace(b"?", b"!")):
    """The file with changed documents."""
    new = {item.key: change(item.data) for item in holder.items() if item.data is not None}
    out = io.BytesIO()
    holder.write(out, lambda key: new.get(key))
    return out.getvalue()


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
    found = Inputs([tmp_path / "in"], tmp_path / "in" / "out", include=["*.md"], ignore=["drafts"])
    assert [one.target for one in found.holders()] == ["a.md", "b.md", "sub/c.md"]
    assert (found.hidden, found.ignored) == (2, 2)


def test_several_inputs_keep_their_names(tmp_path):
    for name in ("one/a.md", "two/a.md", "b.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [one.target for one in holders(tmp_path, "one", "two", "b.md")] == ["one/a.md", "two/a.md", "b.md"]
    assert [one.target for one in holders(tmp_path, "one")] == ["a.md"]


def test_what_is_no_input_is_refused(tmp_path):
    with pytest.raises(ConservatorError, match="cannot read"):
        holders(tmp_path, "none")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConservatorError, match="both an input and the folder"):
        holders(tmp_path, "out")


@pytest.mark.parametrize(
    ("path", "pattern", "same"),
    [("a/b.md", "*.md", True), ("a/b.md", "a/*", True), ("a/b.md", "b", False), ("a", "a/", True), ("ba", "a", False)],
)
def test_patterns_are_of_names_or_relative_paths(path, pattern, same):
    assert matches(path, [pattern]) == same


def test_a_file_that_is_too_large_is_copied(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"what?" * 10)
    (large,) = holders(tmp_path, "a.txt", largest=49)
    (item,) = large.items()
    assert item.data is None
    assert "50 bytes" in item.problem
    assert rewritten(large) == b"what?" * 10
    (small,) = holders(tmp_path, "a.txt", largest=50)
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
    (holder,) = holders(tmp_path, name)
    assert holder.count() == 6
    assert [item.data for item in holder.items()] == [b"why?", None, None, None, None, "ä?".encode()]
    assert [item.name.rpartition("#")[2] for item in holder.items()] == ["1", "3", "4", "5", "6", "7"]
    out = rewritten(holder)
    assert rewritten(holder) == out
    lines[0], lines[-1] = lines[0].replace(b"why?", b"why!"), '{"text":"ä!"}'.encode()
    assert (gzip.decompress(out) if packed else out) == b"".join(lines)


def test_a_table_without_the_field_is_refused(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"body": "x"}\n')
    (holder,) = holders(tmp_path, "t.jsonl")
    with pytest.raises(ConservatorError, match=r"no field 'text' \(body\); --field names another"):
        holder.count()


def test_a_broken_table_says_so(tmp_path):
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"text": "x"}\n' * 1000)[:-20])
    (holder,) = holders(tmp_path, "t.jsonl.gz")
    with pytest.raises(ConservatorError, match="cannot read"):
        holder.count()


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
    (holder,) = holders(tmp_path, name, largest=90)
    assert holder.count() == 4
    assert [item.data for item in holder.items()] == [b"one?", b"two?", None, None]
    out = rewritten(holder, lambda data: data.replace(b"?", b" and more"))
    assert not (tmp_path.parent / "up.txt").exists()
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        members = archive.getmembers()
        assert [one.name for one in members[:2]] == ["../up.txt", "/abs.txt"] or members[1].name == "abs.txt"
        assert [one.type for one in members[4:]] == [tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE]
        assert {one.mtime for one in members[:4]} == {1234.5}
        assert [archive.extractfile(one).read() for one in members[:4]] == [
            b"one and more",
            b"two and more",
            b"three" * 30,
            b"?" * 99,
        ]


def test_a_table_of_columns_keeps_everything_but_its_texts(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    schema = arrow.schema([("n", arrow.int32()), arrow.field("text", arrow.large_string(), metadata={"a": "b"})])
    table = arrow.table({"n": range(5), "text": ["a?", None, "b", "?" * 99, "c?"]}, schema=schema)
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2, compression="gzip")
    (holder,) = holders(tmp_path, "t.parquet", largest=90)
    assert holder.count() == 5
    assert [item.data for item in holder.items()] == [b"a?", None, b"b", None, b"c?"]
    out = parquet.ParquetFile(io.BytesIO(rewritten(holder)))
    assert out.schema_arrow.equals(schema, check_metadata=True)
    assert out.metadata.num_row_groups == 3
    assert out.metadata.row_group(0).column(0).compression == "GZIP"
    assert out.read().to_pydict() == {"n": list(range(5)), "text": ["a!", None, "b", "?" * 99, "c!"]}
    (holder,) = holders(tmp_path, "t.parquet", column="n")
    with pytest.raises(ConservatorError, match="holds int32, not text"):
        holder.count()
    (holder,) = holders(tmp_path, "t.parquet", column="body")
    with pytest.raises(ConservatorError, match=r"no column 'body' \(n, text\)"):
        holder.count()
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ConservatorError, match="cannot read"):
        holder.count()
