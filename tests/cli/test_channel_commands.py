"""``conservator channel`` and ``restore --channel ocr``."""

import json

from support.commands import call

TRUTH = "".join(
    f"The constable found the prisoner in the burning house at {hour} in the morning.\n" for hour in range(40)
)


def test_fit_and_correct(tmp_path):
    wrong = TRUTH.replace("the burning", "tbe buming").replace("house at 1", "housc at 1")
    (tmp_path / "ocr.txt").write_text(wrong)
    (tmp_path / "truth.txt").write_text(TRUTH)
    done = call("channel", "fit", "ocr.txt", "truth.txt", "-o", "court.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'rn' as 'm'" in done.stderr
    assert call("channel", "fit", "ocr.txt", "truth.txt", "-o", "court.json", cwd=tmp_path).returncode == 3

    page = "The constable found tbe prisoner in the buming house.\n"
    words = (
        "restore",
        "-",
        "--channel",
        "court.json",
        "--reference",
        "truth.txt",
        "--report",
        "page.html",
        "--json",
        "page.json",
    )
    done = call(*words, cwd=tmp_path, stdin=page.encode())
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The constable found the prisoner in the burning house.\n"
    assert "2 corrections" in done.stderr
    pieces = json.loads((tmp_path / "page.json").read_text())["pieces"]
    corrections = [(piece["observed"], piece["text"]) for piece in pieces if "origin" in piece]
    assert corrections == [("b", "h"), ("m", "rn")]
    assert "The constable found t" in (tmp_path / "page.html").read_text()


def test_nothing_to_correct(tmp_path):
    done = call("restore", "-", "--channel", "ocr", cwd=tmp_path, stdin=b"The house was built in the following year.\n")
    assert done.returncode == 0
    assert done.stdout == "The house was built in the following year.\n"
    assert "no character of standard input has a more probable alternative" in done.stderr


def test_invalid_input_is_reported(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "empty.txt").write_text("")
    for words, message in (
        (("restore", "-", "--channel", "bad.json"), "bad.json is not an edit channel"),
        (("restore", "-", "--channel", "missing.json"), "missing.json"),
        (("channel", "fit", "latin.txt", "empty.txt", "-o", "x.json"), "latin.txt is not valid UTF-8 at byte 3"),
        (("channel", "fit", "empty.txt", "empty.txt", "-o", "x.json"), "no pair of lines"),
    ):
        done = call(*words, cwd=tmp_path, stdin=b"text")
        assert done.returncode == 3
        assert message in done.stderr
    assert not (tmp_path / "x.json").exists()
