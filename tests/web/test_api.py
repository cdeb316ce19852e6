"""The API: what it answers, what it refuses, and what every answer carries."""

import base64
import itertools
import json
from contextlib import contextmanager, suppress

import pytest
from fastapi.testclient import TestClient

from conservator.errors import TooSlowError
from conservator.experts import Meter
from conservator.pages import detect_ocr_format
from conservator.web.app import FILES, create_app
from conservator.web.config import ServerConfig
from conservator.web.guard import host_of, is_loopback
from conservator.web.job import Restoring
from conservator.web.queue import RestorationQueue
from conservator.web.requests import RestoreRequest
from support.ocr_files import SAMPLES

MARK = "\ufffd"
STUB = "support.web_stub:Stub"


@contextmanager
def client_of(**settings):
    chosen = ServerConfig(**settings)
    with (
        RestorationQueue(chosen) as jobs,
        TestClient(create_app(chosen, jobs), base_url="http://127.0.0.1:8000") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(folders):
    with client_of(experts=folders, max_bytes=2000) as one:
        yield one


def test_a_document_is_restored(client):
    answer = client.post("/v1/restore", json={"text": f"one {MARK}{MARK} two", "alternatives": 2})
    assert answer.status_code == 200
    found = answer.json()
    assert found["experts"] == ["one", "two", "memory"]
    assert "".join(piece["text"] for piece in found["pieces"]) == found["text"]
    piece = next(piece for piece in found["pieces"] if "origin" in piece)
    assert piece["origin"] == [4, 10]
    assert len(piece["fills"]) == 2
    again = client.post("/v1/restore", json={"data": base64.b64encode(f"one {MARK}{MARK} two".encode()).decode(),
                                             "alternatives": 2})  # fmt: skip
    assert again.json()["pieces"] == found["pieces"]


def test_progress_is_streamed(client):
    wanted = {"text": f"one {MARK} two [...] three", "gap": "[...]", "max_gap": 3, "experts": ["two"]}
    with client.stream("POST", "/v1/restore", json=wanted, headers={"Accept": "application/x-ndjson"}) as answer:
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert {line.get("doing") for line in lines[:-1]} == {"lengths", "inferring", "decoding", "alternatives"}
    assert lines[-1]["result"]["experts"] == ["two", "memory"]


def test_a_gap_stays_open_unless_its_fill_is_sure(client):
    wanted = {"text": "received your [...] of the third instant", "gap": "[...]", "max_gap": 3}
    found = client.post("/v1/restore", json=wanted).json()
    assert found["text"] == wanted["text"]
    piece = next(piece for piece in found["pieces"] if "origin" in piece)
    assert piece["open"]
    assert piece["guess"]
    assert piece["fills"]
    filled = client.post("/v1/restore", json={**wanted, "min_gap_confidence": 0}).json()
    assert "[...]" not in filled["text"]


STORY = "The committee met on Tuesday in the old harbour hall, and voted.\n"
LOSS = STORY.replace("Tuesday", f"Tu{MARK}{MARK}{MARK}ay")


def test_references_are_remembered_for_one_request(client):
    references = [{"name": "minutes.txt", "text": f"Minutes\n{STORY}"}, {"name": "empty", "text": ""}]
    found = client.post("/v1/restore", json={"text": LOSS, "references": references}).json()
    assert found["text"] == STORY
    assert found["references"] == [{"name": "minutes.txt", "remembered": 3}]
    assert next(piece["from"] for piece in found["pieces"] if "from" in piece) == [[0, 2]] * 3
    again = client.post("/v1/restore", json={"text": LOSS}).json()  # nothing of it is kept
    assert again["references"] == []
    assert again["text"] != STORY


def test_files_are_read_and_written_in_their_encoding(client):
    text = "Le gar\u00e7on a mang\u00e9 une cr\u00eape."
    data = base64.b64encode(text.encode("cp1252")).decode()
    read = client.post("/v1/read", json={"data": data}).json()
    assert read == {"data": base64.b64encode(text.encode()).decode(), "encoding": "windows-1252"}
    assert client.post("/v1/write", json={"text": text, "encoding": "cp1252"}).json() == {
        "data": data, "encoding": "windows-1252"}  # fmt: skip
    other = client.post("/v1/write", json={"text": "\u0142", "encoding": "cp1252"}).json()
    assert other == {"data": base64.b64encode("\u0142".encode()).decode(), "encoding": "utf-8"}
    assert client.post("/v1/restore", json={"data": data}).json()["encoding"] == "windows-1252"


def test_a_choice_is_read_with_its_surroundings(client):
    text = f"one {MARK} two {MARK} three {'far away, ' * 40} four {MARK} five"
    first = client.post("/v1/restore", json={"text": text, "lost": "bytes"}).json()
    choices = [{"origin": [4, 7], "text": MARK}]
    again = client.post("/v1/restore", json={"text": text, "choices": choices, "previous": first}).json()
    assert again["text"].startswith(f"one {MARK} two ")
    lost = [piece for piece in again["pieces"] if "origin" in piece]
    assert [piece.get("chosen", False) for piece in lost] == [True, False, False]
    far = [piece for piece in first["pieces"] if "origin" in piece][-1]
    assert lost[-1] == {**far, "at": [place + len(MARK.encode()) - 1 for place in far["at"]]}
    assert again["experts"] == first["experts"]
    assert again["summary"]["chosen"] == 1
    whole = client.post("/v1/restore", json={"text": text, "lost": "bytes", "choices": choices}).json()
    assert [piece["at"] for piece in whole["pieces"]] == [piece["at"] for piece in again["pieces"]]
    undone = client.post("/v1/restore", json={"text": text, "previous": again}).json()
    assert undone["text"] == first["text"]
    wrong = client.post("/v1/restore", json={"text": "other", "choices": choices, "previous": first})
    assert wrong.status_code == 400


def test_a_choice_among_lost_characters_is_read_with_its_surroundings(client):
    far = "words that nothing is lost of, " * 10
    text = f"Le caf{MARK} est tr{MARK}s bon. {far}Un gar{MARK}on mange une cr{MARK}pe."
    first = client.post("/v1/restore", json={"text": text, "lost": "characters"}).json()
    assert first["experts"] == ["european"]  # none of the server's own
    assert first["summary"]["lost"] == 4
    places = [piece["origin"] for piece in first["pieces"] if "origin" in piece]
    choices = [{"origin": places[1], "text": "\u0142"}]
    # The option says nothing now: the record before says what was lost.
    again = client.post("/v1/restore", json={"text": text, "choices": choices, "previous": first}).json()
    assert again["lost"] == first["lost"] == "characters"
    assert again["unit"] == "character"
    assert "tr\u0142s bon" in again["text"]
    lost = [piece for piece in again["pieces"] if "origin" in piece]
    assert [piece["origin"] for piece in lost] == places
    assert [piece.get("chosen", False) for piece in lost] == [False, True, False, False]
    assert {key: again["summary"][key] for key in ("lost", "restored", "places", "chosen")} == {
        "lost": 3, "restored": 3, "places": 3, "chosen": 1}  # fmt: skip
    undone = client.post("/v1/restore", json={"text": text, "previous": again}).json()
    assert undone["text"] == first["text"]
    assert undone["lost_by"] == first["lost_by"]
    counts = ("bytes", "lost", "places", "restored", "left_open", "chosen")
    assert [undone["summary"][key] for key in counts] == [first["summary"][key] for key in counts]
    assert [piece["text"] for piece in undone["pieces"]] == [piece["text"] for piece in first["pieces"]]


def test_memory_can_be_left_out(client):
    found = client.post("/v1/restore", json={"text": STORY + LOSS, "memory": False}).json()
    assert found["experts"] == ["one", "two"]
    assert found["memory"] is None


def test_references_have_limits():
    most = {"name": "a", "text": "b" * 50}
    with client_of(factory=STUB, max_bytes=100, max_references=2) as client:
        for references, message in (
            ([most, most], None),
            ([most, {"name": "c", "text": "é" * 26}], "the references have 102 bytes together; at most 100 are read"),
            ([{"name": "c", "text": ""}] * 3, "there are 3 references; at most 2 are read here"),
        ):
            answer = client.post("/v1/restore", json={"text": f"one{MARK}", "references": references})
            assert answer.status_code == (413 if message else 200)
            assert message is None or message in answer.json()["detail"]


def test_errors_do_not_repeat_what_was_sent(client):
    references = [{"name": "a", "text": "confidential", "size": "confidential"}]
    answer = client.post("/v1/restore", json={"text": "a", "references": references})
    assert answer.status_code == 422
    assert "confidential" not in answer.text


def test_errors_are_streamed_too(client):
    wanted = {"data": base64.b64encode(b"caf\xe9").decode(), "encoding": "utf-8"}
    with client.stream("POST", "/v1/restore", json=wanted, headers={"Accept": "application/x-ndjson"}) as answer:
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert lines[-1]["status"] == 400
    assert "byte 3 is 0xe9" in lines[-1]["error"]
    assert "--" not in lines[-1]["error"]
    assert [one["option"] for one in lines[-1]["advice"]] == ["encoding", "lost"]


def test_a_file_of_an_ocr_engine_is_restored_as_text(client):
    """Choices of the page refer to the bytes that it sent."""
    markup = SAMPLES["tesseract.hocr"].decode()[:1500]
    assert detect_ocr_format(markup.encode()) == "hOCR"
    sent = {"data": base64.b64encode((markup + MARK).encode()).decode()}
    assert client.post("/v1/restore", json=sent).json()["text"].startswith(markup)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/restore", {}, 422, "one of them"),
        ("/v1/restore", {"text": "a", "data": "YQ=="}, 422, "one of them"),
        ("/v1/restore", {"text": "a", "expert": "one"}, 422, "expert"),
        ("/v1/restore", {"text": "a", "mark": ""}, 422, "mark"),
        ("/v1/restore", {"text": "a", "min_confidence": 3}, 422, "min_confidence"),
        ("/v1/restore", {"text": "a", "experts": ["/etc"]}, 400, "no expert /etc; known: one, two"),
        ("/v1/restore", {"text": "a", "experts": []}, 400, "known: one, two"),
        ("/v1/restore", {"text": "a" * 2001}, 413, "2001 bytes; at most 2000"),
        ("/v1/restore", {"text": "a", "gap": MARK}, 400, "must differ"),
        ("/v1/restore", {"text": "a" * 100_000}, 413, "larger than"),
        ("/v1/restore", {"text": "a", "references": [{"name": "b", "text": "\0"}]}, 400, "b is a binary file"),
        ("/v1/restore", {"text": "a", "references": [{"name": "", "text": "b"}]}, 422, "name"),
        ("/v1/restore", {"text": "a", "references": [{"name": "b" * 201, "text": "b"}]}, 422, "name"),
        ("/v1/restore", {"text": "a", "references": [{"name": "b"}]}, 422, "text"),
        ("/v1/restore", {"text": "a", "references": "/etc/passwd"}, 422, "references"),
        ("/v1/restore", {"text": "a", "references": ["/etc/passwd"]}, 422, "references"),
        (
            "/v1/restore",
            {"text": "a", "references": [{"name": "b", "text": "b"}], "memory": False},
            422,
            "memory is false",
        ),
        ("/v1/restore", {"text": "a", "choices": [{"origin": [0, 9], "text": "b"}]}, 400, "within 1 bytes"),
        ("/v1/restore", {"text": "a", "choices": [{"origin": [0, 1], "text": ""}]}, 422, "text"),
        ("/v1/restore", {"text": "a", "choices": [{"origin": [0, 1], "text": "b"}]}, 400, "0 to 1 are not all lost"),
        (
            "/v1/restore",
            {"text": f"a{MARK}", "choices": [{"origin": [1, 4], "text": "b" * 2000}]},
            413,
            "2001 bytes with its choices; at most 2000",
        ),
        ("/v1/restore", {"text": "a", "previous": {}}, 400, "previous is no record of this document"),
        (
            "/v1/restore",
            {"text": "a", "previous": {"pieces": [1], "experts": ["one"], "memory": None}},
            400,
            "no record",
        ),
        ("/v1/restore", {"data": "iVBORw0KGgo="}, 400, "the document is a PNG image, not text"),
        ("/v1/restore", {"text": "a", "encoding": "klingon"}, 400, "encoding: 'klingon' is not known"),
        ("/v1/read", {"data": "iVBORw0KGgo=", "name": "photo.txt"}, 400, "photo.txt is a PNG image, not text"),
        ("/v1/read", {"data": "YWFh" * 800, "name": "long.txt"}, 413, "long.txt has 2400 bytes; at most 2000"),
        ("/v1/write", {"text": "a", "encoding": "klingon"}, 400, "is not known"),
        ("/v1/damage", {"text": MARK}, 400, "already"),
    ],
)
def test_what_is_wrong_is_said(client, path, body, status, message):
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert message in json.dumps(answer.json()["detail"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/restore", b'{"text": "a", "experts": ["\\ud800"]}', 400),
        ("/v1/restore", b'{"text": "a", "\\ud800": 1}', 422),
        ("/v1/restore", b'{"text": "a", "like": [{"name": "b", "text": "\\ud800"}]}', 400),
        ("/v1/report", b'{"record": {"a": NaN}}', 400),
        ("/v1/report", b'{"record": {"a": "\\ud800"}}', 400),
    ],
)
def test_what_is_no_text_is_refused(client, path, body, status):
    assert client.post(path, content=body, headers={"Content-Type": "application/json"}).status_code == status


def test_a_request_without_a_length_is_cut_off(client):
    answer = client.post("/v1/restore", content=(b"x" * 10_000 for _ in range(20)))
    assert answer.status_code == 413


def test_clean_documents_can_be_damaged(client):
    answer = client.post("/v1/damage", json={"text": "text " * 50, "rate": 0.5, "seed": 1})
    damaged = base64.b64decode(answer.json()["data"]).decode()
    assert 60 < damaged.count(MARK) < 190


def test_a_record_becomes_a_report(client):
    record = client.post("/v1/restore", json={"text": f"<script>{MARK}"}).json()
    answer = client.post("/v1/report", json={"title": "<b>", "record": record})
    assert "attachment" in answer.headers["content-disposition"]
    assert "<title>&lt;b&gt;</title>" in answer.text
    assert answer.text.count("<script") == 2


def test_the_server_says_how_it_is_and_what_it_offers(client):
    assert client.get("/healthz").json()["status"] == "ok"
    assert [one["name"] for one in client.get("/v1/experts").json()] == ["one", "two"]
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/restore", "/v1/experts", "/healthz"} <= set(paths)


def test_every_answer_keeps_the_page_to_itself(client):
    for path in ("/", "/healthz", "/nowhere", "/static/app.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/static/app.py", "/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd", "//etc/passwd", "/static/"]
)
def test_no_other_file_can_be_read(client, path):
    assert client.get(path).status_code == 404
    for known in FILES:
        assert client.get(f"/{known}").status_code == 200


@pytest.mark.parametrize(("name", "host"), [("a:80", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("a", "a"), ("", "")])
def test_hosts(name, host):
    assert host_of(name) == host


def test_on_loopback_other_names_are_refused(client):
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
    with client_of(factory=STUB, host="0.0.0.0") as open_one:
        assert open_one.get("/healthz", headers={"Host": "box.example"}).status_code == 200


def test_work_for_other_pages_is_refused(client):
    body = {"text": "a"}
    assert client.post("/v1/restore", json=body, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post("/v1/restore", json=body, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize(("host", "local"), [("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("box", False)])
def test_loopback_is_known(host, local):
    assert is_loopback(host) is local


def test_a_limit_of_time_keeps_what_was_reached(folders, monkeypatch):
    settings = ServerConfig(experts=folders, max_seconds=1e-6)
    with pytest.raises(TooSlowError, match="nothing was restored within"):
        Restoring(settings)(RestoreRequest(text=f"one {MARK}"), lambda doing, share: None)
    ticks = itertools.count()
    monkeypatch.setattr(Meter.__init__, "__defaults__", (None, None, lambda: float(next(ticks))))
    for seconds in range(1, 400):  # of a clock that goes on whenever somebody looks
        settings = ServerConfig(experts=folders, max_seconds=float(seconds))
        with suppress(TooSlowError):
            found = json.loads(Restoring(settings)(RestoreRequest(text=f"one {MARK}"), lambda doing, share: None))
            break
    assert found["out_of_time"] is not None
    assert len(found["text"]) == 5
