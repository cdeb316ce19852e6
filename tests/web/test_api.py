"""The API: responses, refused requests, and headers."""

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
from conservator.web.job import RestoreHandler
from conservator.web.queue import RestorationQueue
from conservator.web.requests import RestoreRequest
from support.ocr_files import WRITERS

MARK = "\ufffd"
STUB = "support.web_stub:Stub"


@contextmanager
def client_of(**fields):
    config = ServerConfig(**fields)
    with (
        RestorationQueue(config) as queue,
        TestClient(create_app(config, queue), base_url="http://127.0.0.1:8000") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(folders):
    with client_of(experts=folders, max_bytes=2000) as test_client:
        yield test_client


def test_a_document_is_restored(client):
    response = client.post("/v1/restore", json={"text": f"one {MARK}{MARK} two", "alternatives": 2})
    assert response.status_code == 200
    record = response.json()
    assert record["experts"] == ["one", "two", "words", "memory"]
    assert "".join(piece["text"] for piece in record["pieces"]) == record["text"]
    piece = next(piece for piece in record["pieces"] if "origin" in piece)
    assert piece["origin"] == [4, 10]
    assert len(piece["alternatives"]) == 2
    data = base64.b64encode(f"one {MARK}{MARK} two".encode()).decode()
    from_bytes = client.post("/v1/restore", json={"data": data, "alternatives": 2})
    assert from_bytes.json()["pieces"] == record["pieces"]


def test_progress_is_streamed(client):
    request = {"text": f"one {MARK} two [...] three", "gap": "[...]", "max_gap": 3, "experts": ["two"]}
    with client.stream("POST", "/v1/restore", json=request, headers={"Accept": "application/x-ndjson"}) as response:
        assert response.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in response.iter_lines()]
    assert {line.get("doing") for line in lines[:-1]} == {"lengths", "inferring", "decoding", "alternatives"}
    assert lines[-1]["result"]["experts"] == ["two", "words", "memory"]


def test_a_gap_is_left_unfilled_below_the_minimum_confidence(client):
    request = {"text": "received your [...] of the third instant", "gap": "[...]", "max_gap": 3}
    record = client.post("/v1/restore", json=request).json()
    assert record["text"] == request["text"]
    piece = next(piece for piece in record["pieces"] if "origin" in piece)
    assert piece["unfilled"]
    assert piece["guess"]
    assert piece["alternatives"]
    filled = client.post("/v1/restore", json={**request, "min_gap_confidence": 0}).json()
    assert "[...]" not in filled["text"]


STORY = "The committee met on Tuesday in the old harbour hall, and voted.\n"
LOSS = STORY.replace("Tuesday", f"Tu{MARK}{MARK}{MARK}ay")


def test_references_are_used_for_one_request_only(client):
    references = [{"name": "minutes.txt", "text": f"Minutes\n{STORY}"}, {"name": "empty", "text": ""}]
    record = client.post("/v1/restore", json={"text": LOSS, "references": references}).json()
    assert record["text"] == STORY
    assert record["references"] == [{"name": "minutes.txt", "provenance": 3}]
    assert next(piece["sources"] for piece in record["pieces"] if "sources" in piece) == [[0, 2]] * 3
    without = client.post("/v1/restore", json={"text": LOSS}).json()  # references are not stored
    assert without["references"] == []
    assert not any(source for piece in without["pieces"] for source in piece.get("sources", []))


def test_files_are_read_and_written_in_their_encoding(client):
    text = "Le gar\u00e7on a mang\u00e9 une cr\u00eape."
    data = base64.b64encode(text.encode("cp1252")).decode()
    read = client.post("/v1/read", json={"data": data}).json()
    utf8 = base64.b64encode(text.encode()).decode()
    assert read == {"data": utf8, "encoding": "windows-1252", "format": None}
    written = client.post("/v1/write", json={"text": text, "encoding": "cp1252"}).json()
    assert written == {"data": data, "encoding": "windows-1252", "format": None}
    other = client.post("/v1/write", json={"text": "\u0142", "encoding": "cp1252"}).json()
    assert other == {"data": base64.b64encode("\u0142".encode()).decode(), "encoding": "utf-8", "format": None}
    restored = client.post("/v1/restore", json={"data": data}).json()
    assert (restored["encoding"], restored["data"]) == ("windows-1252", data)
    assert client.post("/v1/restore", json={"text": text}).json()["data"] == utf8


def test_the_surroundings_of_a_choice_are_restored_again(client):
    text = f"the h{MARK}use, the g{MARK}rden {'far away, ' * 40} the str{MARK}et"
    first = client.post("/v1/restore", json={"text": text, "lost": "bytes"}).json()
    choices = [{"origin": [5, 8], "text": MARK}]
    renewed = client.post("/v1/restore", json={"text": text, "choices": choices, "previous": first}).json()
    assert renewed["text"].startswith(f"the h{MARK}use, the g")
    lost = [piece for piece in renewed["pieces"] if "origin" in piece]
    assert [piece.get("fixed", False) for piece in lost] == [True, False, False]
    far = [piece for piece in first["pieces"] if "origin" in piece][-1]
    assert lost[-1] == {**far, "at": [position + len(MARK.encode()) - 1 for position in far["at"]]}
    assert renewed["experts"] == first["experts"]
    assert renewed["summary"]["fixed"] == 1
    whole = client.post("/v1/restore", json={"text": text, "lost": "bytes", "choices": choices}).json()
    assert [piece["at"] for piece in whole["pieces"]] == [piece["at"] for piece in renewed["pieces"]]
    undone = client.post("/v1/restore", json={"text": text, "previous": renewed}).json()
    assert undone["text"] == first["text"]
    wrong = client.post("/v1/restore", json={"text": "other", "choices": choices, "previous": first})
    assert wrong.status_code == 400


def test_the_surroundings_of_a_choice_among_lost_characters_are_restored_again(client):
    distant = "words that nothing is lost of, " * 10
    text = f"Le caf{MARK} est tr{MARK}s bon. {distant}Un gar{MARK}on mange une cr{MARK}pe."
    first = client.post("/v1/restore", json={"text": text, "lost": "characters"}).json()
    assert first["experts"] == ["european"]  # not one of the experts of the server
    assert first["summary"]["lost"] == 4
    origins = [piece["origin"] for piece in first["pieces"] if "origin" in piece]
    choices = [{"origin": origins[1], "text": "\u0142"}]
    # The request does not set the option lost: it is taken from the previous record.
    renewed = client.post("/v1/restore", json={"text": text, "choices": choices, "previous": first}).json()
    assert renewed["lost"] == first["lost"] == "characters"
    assert renewed["unit"] == "character"
    assert "tr\u0142s bon" in renewed["text"]
    lost = [piece for piece in renewed["pieces"] if "origin" in piece]
    assert [piece["origin"] for piece in lost] == origins
    assert [piece.get("fixed", False) for piece in lost] == [False, True, False, False]
    assert {key: renewed["summary"][key] for key in ("lost", "restored", "spans", "fixed")} == {
        "lost": 3, "restored": 3, "spans": 3, "fixed": 1}  # fmt: skip
    undone = client.post("/v1/restore", json={"text": text, "previous": renewed}).json()
    assert undone["text"] == first["text"]
    assert undone["lost_by"] == first["lost_by"]
    counts = ("bytes", "lost", "spans", "restored", "unfilled", "fixed")
    assert [undone["summary"][key] for key in counts] == [first["summary"][key] for key in counts]
    assert [piece["text"] for piece in undone["pieces"]] == [piece["text"] for piece in first["pieces"]]


def test_memory_can_be_disabled(client):
    record = client.post("/v1/restore", json={"text": STORY + LOSS, "memory": False}).json()
    assert record["experts"] == ["one", "two"]
    assert record["memory"] is None


def test_references_have_limits():
    half = {"name": "a", "text": "b" * 50}
    with client_of(factory=STUB, max_bytes=100, max_references=2) as client:
        for references, message in (
            ([half, half], None),
            ([half, {"name": "c", "text": "é" * 26}], "too large: together 102 bytes, the limit is 100 bytes"),
            ([{"name": "c", "text": ""}] * 3, "too many references: got 3, the limit is 2"),
        ):
            response = client.post("/v1/restore", json={"text": f"one{MARK}", "references": references})
            assert response.status_code == (413 if message else 200)
            assert message is None or message in response.json()["detail"]


def test_errors_do_not_quote_the_request(client):
    references = [{"name": "a", "text": "confidential", "size": "confidential"}]
    response = client.post("/v1/restore", json={"text": "a", "references": references})
    assert response.status_code == 422
    assert "confidential" not in response.text


def test_errors_are_streamed(client):
    request = {"data": base64.b64encode(b"caf\xe9").decode(), "encoding": "utf-8"}
    with client.stream("POST", "/v1/restore", json=request, headers={"Accept": "application/x-ndjson"}) as response:
        lines = [json.loads(line) for line in response.iter_lines()]
    assert lines[-1]["status"] == 400
    assert "byte 3 is 0xe9" in lines[-1]["error"]
    assert "--" not in lines[-1]["error"]
    assert [advice["option"] for advice in lines[-1]["advice"]] == ["encoding", "lost", "channel"]


OCR_LINES = [["The", "constable", "found", "tbe", "prisoner", "in", "the", "house."]]


@pytest.mark.parametrize("name", WRITERS)
def test_the_words_of_an_ocr_file_are_corrected(client, name):
    markup = WRITERS[name](OCR_LINES)
    request = {"data": base64.b64encode(markup).decode()}
    read = client.post("/v1/read", json={**request, "encoding": "cp1252"}).json()  # the format determines the encoding
    assert base64.b64decode(read["data"]).decode().split() == OCR_LINES[0]
    assert (read["encoding"], read["format"]) == ("utf-8", detect_ocr_format(markup))
    record = client.post("/v1/restore", json=request).json()
    assert record["text"].split() == ["The", "constable", "found", "the", "prisoner", "in", "the", "house."]
    correction = next(piece for piece in record["pieces"] if "origin" in piece)
    assert (correction["observed"], correction["text"], correction["line"]) == ("b", "h", 1)
    corrected = base64.b64decode(record["data"])
    assert detect_ocr_format(corrected) == read["format"]
    assert (
        client.post("/v1/read", json={"data": record["data"]}).json()["data"]
        == base64.b64encode(record["text"].encode()).decode()
    )
    as_text = client.post("/v1/restore", json={"text": markup.decode()}).json()
    assert as_text["text"] == markup.decode()


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/restore", {}, 422, "exactly one of text and data"),
        ("/v1/restore", {"text": "a", "data": "YQ=="}, 422, "exactly one of text and data"),
        ("/v1/restore", {"text": "a", "expert": "one"}, 422, "expert"),
        ("/v1/restore", {"text": "a", "mark": ""}, 422, "mark"),
        ("/v1/restore", {"text": "a", "min_confidence": 3}, 422, "min_confidence"),
        ("/v1/restore", {"text": "a", "experts": ["/etc"]}, 400, "unknown expert /etc; available: one, two"),
        ("/v1/restore", {"text": "a", "experts": []}, 400, "at least one expert; available: one, two"),
        ("/v1/restore", {"text": "a" * 2001}, 413, "2001 bytes, the limit is 2000 bytes"),
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
            "2001 bytes with its choices, the limit is 2000 bytes",
        ),
        ("/v1/restore", {"text": "a", "previous": {}}, 400, "previous is not a record of this document"),
        (
            "/v1/restore",
            {"text": "a", "previous": {"pieces": [1], "experts": ["one"], "memory": None}},
            400,
            "not a record",
        ),
        ("/v1/restore", {"data": "iVBORw0KGgo="}, 400, "the document is a PNG image, not text"),
        ("/v1/restore", {"text": "a", "encoding": "klingon"}, 400, "encoding: 'klingon' is not known"),
        ("/v1/read", {"data": "iVBORw0KGgo=", "name": "photo.txt"}, 400, "photo.txt is a PNG image, not text"),
        (
            "/v1/read",
            {"data": "YWFh" * 800, "name": "long.txt"},
            413,
            "long.txt is too large: it has 2400 bytes, the limit is 2000 bytes",
        ),
        ("/v1/write", {"text": "a", "encoding": "klingon"}, 400, "is not known"),
        ("/v1/damage", {"text": MARK}, 400, "of the document"),
    ],
)
def test_invalid_requests_are_refused_with_a_message(client, path, body, status, message):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert message in json.dumps(response.json()["detail"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/restore", b'{"text": "a", "experts": ["\\ud800"]}', 400),
        ("/v1/restore", b'{"text": "a", "\\ud800": 1}', 422),
        ("/v1/restore", b'{"text": "a", "references": [{"name": "b", "text": "\\ud800"}]}', 400),
        ("/v1/report", b'{"record": {"a": NaN}}', 400),
        ("/v1/report", b'{"record": {"a": "\\ud800"}}', 400),
    ],
)
def test_lone_surrogates_and_nan_are_refused(client, path, body, status):
    assert client.post(path, content=body, headers={"Content-Type": "application/json"}).status_code == status


def test_a_large_request_without_a_length_is_refused(client):
    response = client.post("/v1/restore", content=(b"x" * 10_000 for _ in range(20)))
    assert response.status_code == 413


def test_a_document_is_damaged(client):
    response = client.post("/v1/damage", json={"text": "text " * 50, "rate": 0.5, "seed": 1})
    damaged = base64.b64decode(response.json()["data"]).decode()
    assert 60 < damaged.count(MARK) < 190


def test_a_report_is_created_from_a_record(client):
    record = client.post("/v1/restore", json={"text": f"<script>{MARK}"}).json()
    response = client.post("/v1/report", json={"title": "<b>", "record": record})
    assert "attachment" in response.headers["content-disposition"]
    assert "<title>&lt;b&gt;</title>" in response.text
    assert response.text.count("<script") == 2


def test_health_experts_and_openapi_are_served(client):
    assert client.get("/healthz").json()["status"] == "ok"
    assert [expert["name"] for expert in client.get("/v1/experts").json()] == ["one", "two"]
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
def test_no_other_file_is_served(client, path):
    assert client.get(path).status_code == 404
    for name in FILES:
        assert client.get(f"/{name}").status_code == 200


@pytest.mark.parametrize(
    ("header", "host"), [("a:80", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("a", "a"), ("", "")]
)
def test_the_host_of_a_header(header, host):
    assert host_of(header) == host


def test_on_loopback_other_hosts_are_refused(client):
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
    with client_of(factory=STUB, host="0.0.0.0") as public:
        assert public.get("/healthz", headers={"Host": "box.example"}).status_code == 200


def test_requests_from_other_sites_are_refused(client):
    body = {"text": "a"}
    assert client.post("/v1/restore", json=body, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post("/v1/restore", json=body, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize(("host", "local"), [("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("box", False)])
def test_loopback_addresses_are_recognised(host, local):
    assert is_loopback(host) is local


def test_the_time_limit_gives_a_partial_result(folders, monkeypatch):
    config = ServerConfig(experts=folders, max_seconds=1e-6)
    with pytest.raises(TooSlowError, match="nothing was restored within"):
        RestoreHandler(config)(RestoreRequest(text=f"one {MARK}"), lambda stage, fraction: None)
    ticks = itertools.count()
    monkeypatch.setattr(Meter.__init__, "__defaults__", (None, None, lambda: float(next(ticks))))
    for seconds in range(1, 400):  # of a clock that advances with every call
        config = ServerConfig(experts=folders, max_seconds=float(seconds))
        with suppress(TooSlowError):
            record = json.loads(
                RestoreHandler(config)(RestoreRequest(text=f"one {MARK}"), lambda stage, fraction: None)
            )
            break
    assert record["out_of_time"] is not None
    assert len(record["text"]) == 5
