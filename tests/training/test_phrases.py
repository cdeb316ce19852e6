"""The phrases of many documents: what is kept, and that the list is what the memory reads."""

import gzip
import json
from unittest import mock

from conservator.experts.memory import phrases as shipped
from conservator.training import phrases
from conservator.training.phrases import find_phrases


def test_only_what_several_documents_share_is_kept():
    many = [" the common phrase, name() = 1\n"] * 10 + [" a rare phrase\n"] * 4
    found = find_phrases(many)
    assert {" the ", " common ", " phrase,", " the common ", " common phrase,"} <= set(found)
    assert " rare " not in found
    assert any("name(" in one for one in found)
    assert found == sorted(found)
    assert all(len(one) <= phrases.LONGEST for one in found)


def test_a_list_is_made_by_one_command(tmp_path):
    data, out = tmp_path / "texts.jsonl", tmp_path / "phrases.gz"
    data.write_text("".join(json.dumps({"text": f"so one of number {number}"}) + "\n" for number in range(40)))
    with mock.patch("sys.argv", ["phrases", "--data", str(data), "--out", str(out)]):
        phrases.main()
    assert b" one of " in gzip.decompress(out.read_bytes()).split(shipped.END)


def test_the_shipped_list_is_read_once():
    index = shipped.load_phrases()
    assert index is shipped.load_phrases()
    assert b" the " in bytes(index.text[index.text >= 0].astype("uint8").tolist())
