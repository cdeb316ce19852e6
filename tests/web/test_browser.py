"""The page and the report in a real browser; skipped if there is none."""

import base64
import io
import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from playwright import sync_api as playwright

from conservator import Restoration, restore
from conservator.decoders.edits import Change
from conservator.document import open_document
from conservator.experts import Cost
from conservator.pages import Box, Picture, detect_ocr_format, read_pages
from conservator.pipelines.correction import Correction, as_restoration
from conservator.results import Edit, Notice
from conservator.results.notices import domain_notice, time_limit_notice
from conservator.web.config import ServerConfig
from support.fakes import FakeExpert
from support.ocr_files import write_hocr
from support.web_server import leave_all, post, running, until
from support.web_stub import RELEASE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.external_programs,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
MARK = "\ufffd"
CHILD_TEXTS = "node => [...node.childNodes].map((child) => child.textContent)"
DOCUMENT = f"The lo{MARK} hill <script>alert(1)</script> abov{MARK}{MARK}the river.\nline {MARK}wo\n"
TIMEOUT = 120_000  # milliseconds: long, for busy machines


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(folders):
    with running(ServerConfig(experts=folders)) as server:
        yield f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def page(browser):
    """A page; errors on it fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(TIMEOUT)
    new_page = context.new_page()
    errors = []
    new_page.on("pageerror", lambda error: errors.append(str(error)))
    new_page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
    refused = re.compile("status of (400|413|422)")  # the browser logs these, and the page shows them
    new_page.on(
        "console",
        lambda line: errors.append(line.text) if line.type == "error" and not refused.search(line.text) else 0,
    )
    yield new_page
    context.close()
    assert errors == []


def expect(locator):
    playwright.expect.set_options(timeout=TIMEOUT)
    return playwright.expect(locator)


def wait_for_result(page):
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#view .document")).to_be_visible(timeout=30_000)


def test_the_position_in_the_queue_is_shown(page, monkeypatch, tmp_path):
    monkeypatch.setenv(RELEASE, str(tmp_path / "release"))
    with running(ServerConfig(factory="support.web_stub:Stub")) as server:
        post(server, "HOLD")
        until(server, running=1)
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.fill("#document", DOCUMENT)
        page.click("#restore")
        expect(page.locator("#progress")).to_have_text("waiting in the queue: position 1")
        page.click("#cancel")
        until(server, waiting=0)
        leave_all()


def test_paste_restore_choose_restore_again_and_download(page, address):
    page.goto(address)
    page.fill("#document", DOCUMENT)
    expect(page.locator("#state")).to_contain_text("4 marks")
    page.click("#restore")
    wait_for_result(page)
    assert "<script>alert(1)</script>" in page.locator("#view .document").inner_text()
    assert page.locator("#view script").count() == 0
    expect(page.locator(".count")).to_have_text("3 spans")

    page.locator("#view .r[data-i='1']").first.click()
    fill = page.locator(".tip button.name").nth(1)
    chosen = fill.locator("b").inner_text()
    fill.click()
    expect(page.locator("#view .document .r.yours")).to_have_count(1, timeout=30_000)
    wait_for_result(page)
    expect(page.locator(".count")).to_have_text("2 of 3")
    assert len(chosen) >= 1
    expect(page.locator("#undo")).to_be_visible()
    assert page.input_value("#document") == DOCUMENT  # a choice does not change the document

    page.locator("#view .r[data-i='0']").first.click()
    page.fill(".tip input", "w")
    page.keyboard.press("Enter")
    expect(page.locator("#view .document .r.yours")).to_have_count(2, timeout=30_000)
    wait_for_result(page)
    assert "The low hill" in page.locator("#view .document").inner_text()

    with page.expect_download() as text:
        page.click("#save-text")
    data = text.value.path().read_bytes().decode()
    assert data.startswith("The low hill <script>")
    assert MARK not in data
    with page.expect_download() as report:
        page.click("#save-report")
    assert report.value.suggested_filename == "document.restored.html"
    assert report.value.path().read_text().startswith("<!doctype html>")
    page.goto(report.value.path().rename(report.value.path().with_suffix(".html")).as_uri())
    expect(page.locator(".document .r.yours")).to_have_count(2)
    page.locator(".document .r.yours").first.hover()
    expect(page.locator(".tip")).to_contain_text("Fixed text low")


def test_waiting_choices_are_sent_together_and_can_be_undone(page, address):
    page.goto(address)
    page.fill("#document", DOCUMENT)
    page.click("#restore")
    wait_for_result(page)
    before = page.locator("#view .document").inner_text()
    requests, held = [], []

    def hold(route):  # holds the first request
        requests.append(route.request.post_data_json)
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/v1/restore", hold)
    for index, text in ((0, "w"), (1, "e "), (2, "T")):
        page.locator(f"#view .r[data-i='{index}']").first.click()
        page.fill(".tip input", text)
        page.keyboard.press("Enter")
    expect(page.locator("#view .r.pending[data-i='2']")).to_have_text("T")
    expect(page.locator("#view .r.pending[data-i='1']").first).to_have_text("e ")
    assert len(requests) == 1  # the others wait for the first
    expect(page.locator("#progress")).to_contain_text("2 more choices are waiting")
    held[0].continue_()
    expect(page.locator("#view .document .r.yours")).to_have_count(3, timeout=30_000)
    wait_for_result(page)
    assert [len(request["choices"]) for request in requests] == [1, 3]
    assert all(request["previous"] for request in requests)
    assert page.locator("#view .document").inner_text().startswith("The low hill <script>alert(1)</script> above the")
    expect(page.locator("#view .r.pending")).to_have_count(0)

    page.locator("#view .document .r.yours").first.click()
    expect(page.locator(".tip")).to_contain_text("Fixed text low")
    page.click(".tip .undo")
    expect(page.locator("#view .document .r.yours")).to_have_count(2, timeout=30_000)
    page.click("#undo")  # restores the choice
    expect(page.locator("#view .document .r.yours")).to_have_count(3, timeout=30_000)
    for left in (2, 1, 0):
        page.click("#undo")
        expect(page.locator("#view .document .r.yours")).to_have_count(left, timeout=30_000)
    wait_for_result(page)
    expect(page.locator("#undo")).to_be_hidden()
    assert page.locator("#view .document").inner_text() == before


def test_a_choice_may_contain_the_mark(page, address):
    page.goto(address)
    page.fill("#document", "one ¤ two ¤ three")
    page.click("summary")
    page.fill("#mark", "¤")
    page.click("#restore")
    wait_for_result(page)
    page.locator("#view .r[data-i='0']").first.click()
    page.fill(".tip input", "¤¤")
    page.keyboard.press("Enter")
    expect(page.locator("#view .document .r.yours")).to_have_text("¤¤", timeout=30_000)
    wait_for_result(page)
    expect(page.locator("#view .document [data-i]")).to_have_count(2)
    page.click("#restore")  # with the choice
    wait_for_result(page)
    expect(page.locator("#view .document .r.yours")).to_have_text("¤¤")


def test_an_old_result_is_greyed_out_or_removed(page, address):
    page.goto(address)
    page.fill("#document", DOCUMENT)
    page.click("#restore")
    wait_for_result(page)
    page.fill("#document", DOCUMENT + "more")
    expect(page.locator("#outdated")).to_be_visible()
    expect(page.locator("#view")).to_have_class(re.compile("outdated"))
    page.fill("#document", DOCUMENT)
    expect(page.locator("#outdated")).to_be_hidden()
    page.click("summary")
    page.fill("#gap", MARK)
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text(
        "Marker of a gap of unknown length: the mark and the gap marker must differ"
    )
    expect(page.locator("#view .document")).to_have_count(0)
    expect(page.locator("#downloads")).to_be_hidden()
    page.fill("#gap", "")
    page.fill("#max-gap", "999")
    page.evaluate("document.getElementById('form').noValidate = true")
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text("Maximum length of a gap: ")
    page.fill("#max-gap", "9")
    page.click("#restore")
    wait_for_result(page)
    page.click("#sample")
    expect(page.locator("#view .document")).to_have_count(0)
    expect(page.locator("#empty")).to_be_visible()


def test_the_result_stays_if_a_choice_fails(page, address):
    page.goto(address)
    page.fill("#document", DOCUMENT)
    page.click("#restore")
    wait_for_result(page)
    before = page.locator("#view .document").inner_text()
    response = json.dumps({"error": "no", "problem": "9 are waiting", "advice": []}) + "\n"
    page.route("**/v1/restore", lambda route: route.fulfill(status=200, body=response))
    page.locator("#view .r[data-i='0']").first.click()
    page.locator(".tip button.name").nth(1).click()
    expect(page.locator("#error")).to_contain_text("9 are waiting")
    expect(page.locator("#view .r.pending")).to_have_count(0)
    assert page.locator("#view .document").inner_text() == before


def test_files_keep_their_encoding(page, address):
    page.goto(address)
    page.set_input_files("#file", {"name": "photo.txt", "mimeType": "text/plain", "buffer": b"\x89PNG\r\n\x1a\n\0"})
    expect(page.locator("#error")).to_have_text("photo.txt is a PNG image, not text")
    data = "Le gar\u00e7on a mang\u00e9 une cr\u00eape \u00e0 la mais?n.\r\n".encode("cp1252")
    page.set_input_files("#file", {"name": "note.txt", "mimeType": "text/plain", "buffer": data})
    expect(page.locator("#state")).to_contain_text("encoding windows-1252")
    page.click("summary")
    page.fill("#mark", "?")
    page.click("#restore")
    wait_for_result(page)
    page.locator("#view .r[data-i='0']").first.click()
    page.fill(".tip input", "o")
    page.keyboard.press("Enter")
    expect(page.locator("#view .document .r.yours")).to_have_text("o", timeout=30_000)
    wait_for_result(page)
    with page.expect_download() as text:
        page.click("#save-text")
    assert text.value.path().read_bytes() == data.replace(b"?", b"o")
    page.fill("#encoding", "utf-8")
    page.keyboard.press("Enter")
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text("the setting \u201cType of damage\u201d counts")
    expect(page.locator("#error")).not_to_contain_text("--")
    page.fill("#encoding", "klingon")
    page.press("#encoding", "Tab")
    expect(page.locator("#error")).to_contain_text("Encoding of the file: 'klingon' is not known")


def test_the_page_works_with_the_keyboard(page, address):
    page.goto(address)
    expect(page.locator("#experts input")).to_have_count(2)
    page.focus("#document")
    page.keyboard.insert_text(DOCUMENT)
    page.keyboard.press("Control+Enter")
    wait_for_result(page)
    page.focus("#view .document")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".count")).to_have_text("2 of 3")
    page.keyboard.press("Enter")
    expect(page.locator(".tip")).to_be_visible()
    expect(page.locator(".tip button.name").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".tip")).to_be_hidden()
    expect(page.locator("#view .document")).to_be_focused()


def test_a_document_is_damaged_and_errors_are_shown(page, address):
    page.goto(address)
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text("no document yet")
    page.click("#sample")
    expect(page.locator("#state")).to_contain_text(" 0 marks")
    page.fill("#rate", "30")
    page.click("#damage")
    expect(page.locator("#state")).not_to_contain_text(" 0 marks")
    page.click("#damage")
    expect(page.locator("#error")).to_contain_text("of the document")
    expect(page.locator("#error")).not_to_contain_text("setting")
    page.set_input_files(
        "#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": "\u00e9t\u00e9".encode() + b"\xe9"}
    )
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text("byte 5 is 0xe9")
    expect(page.locator("#error")).not_to_contain_text("--")
    page.click("summary")
    for box in page.locator("#experts input").all():
        box.uncheck()
    page.click("#restore")
    expect(page.locator("#error")).to_contain_text("select at least one in the settings")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_narrow_and_wide_windows_in_light_and_dark(browser, address, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    page.fill("#document", DOCUMENT)
    page.click("#restore")
    wait_for_result(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    light = page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 247)"
    assert light == (scheme == "light")
    context.close()


def test_the_report_works_from_disk(page, tmp_path):
    restoration = restore(DOCUMENT, [FakeExpert(0), FakeExpert(1)], alternatives=3, min_confidence=0.02)
    path = tmp_path / "report.html"
    path.write_text(restoration.to_html("report <b>"))
    page.goto(path.as_uri())
    assert page.locator(".document").inner_text().rstrip() == restoration.text.rstrip()
    assert page.locator("h1").inner_text() == "report <b>"
    page.locator(".document .r").first.hover()
    expect(page.locator(".tip")).to_contain_text("Expert weights")
    assert page.locator(".chart path").count() == 5  # two experts, words, the memory, what was lost


def test_alternatives_are_shown_with_the_rest_of_the_word(page, tmp_path):
    text = f"Many stud{MARK}{MARK}{MARK}s (and un{'believ' * 9}{MARK}ble ones) {MARK}ere there.\n"
    restoration = restore(text, [FakeExpert(0), FakeExpert(1)], alternatives=3)
    fills = next(piece for piece in restoration.record.pieces if piece.origin).alternatives
    path = tmp_path / "report.html"
    path.write_text(restoration.to_html())
    page.goto(path.as_uri())
    page.locator(".document .r[data-i='0']").first.hover()
    words = page.locator(".tip .bars .word")
    expect(words).to_have_count(3)
    for number, fill in enumerate(fills):
        parts = words.nth(number).evaluate(CHILD_TEXTS)
        assert (parts[0], parts[2]) == ("stud", "s")
        assert len(parts[1]) == len(fill.text)
    page.mouse.move(0, 0)
    page.locator(".document .r[data-i='1']").first.hover()
    parts = words.first.evaluate(CHILD_TEXTS)
    assert (parts[0], parts[2]) == (f"\u2026{('believ' * 9)[-24:]}", "ble")
    page.mouse.move(0, 0)
    page.locator(".document .r[data-i='2']").first.hover()
    parts = words.first.evaluate(CHILD_TEXTS)
    assert (parts[0], parts[2]) == ("", "ere")


LINE = "The committee met on Tuesday in the old harbour hall, and voted.\n"
LOSS = LINE.replace("Tuesday", f"Tu{MARK}{MARK}{MARK}ay")


def test_the_report_shows_the_provenance_of_a_byte(page, tmp_path):
    document = f"A title{MARK}and more of it\nsecond\n\n{LINE}between\n{LOSS}another {MARK} and a q{MARK}ay wall"
    references = [("<b>.txt", "one\nNext to a quay wall")]
    restoration = restore(document, [FakeExpert(0), FakeExpert(1)], references=references)
    path = tmp_path / "report.html"
    path.write_text(restoration.to_html())
    page.goto(path.as_uri())
    expect(page.locator(".legend").first).to_contain_text("memory")
    span = page.locator(".document .r.copied", has_text="esd")
    span.hover()
    expect(page.locator(".tip")).to_contain_text("copied from line 4 of this document")
    assert page.locator(".tip button.link").count() == 0  # the box would disappear before the pointer reaches it
    span.click()
    page.click(".tip button.link")
    expect(page.locator(".tip")).to_be_hidden()
    assert page.evaluate("() => getSelection().toString()") == LINE.rstrip("\n")
    page.locator(".document .r", has_text="u").last.click()
    expect(page.locator(".tip")).to_contain_text("copied from line 2 of <b>.txt")
    page.emulate_media(media="print")
    assert page.locator(".legend .r.copied").is_visible()


def test_a_report_without_a_memory(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(restore(DOCUMENT, [FakeExpert(0), FakeExpert(1)], memory=False).to_html())
    page.goto(path.as_uri())
    page.locator(".document .r").first.hover()
    expect(page.locator(".tip")).to_contain_text("Expert weights")
    assert page.locator(".chart path").count() == 3
    assert page.get_by_text("copied").count() == 0


def test_lost_characters_are_shown_chosen_and_undone(page, address):
    page.goto(address)
    page.fill("#document", f"Le caf{MARK} est tr{MARK}s bon, et le gar{MARK}on mange une cr{MARK}pe.")
    page.click("summary")
    page.select_option("#lost", "characters")
    page.click("#restore")
    wait_for_result(page)
    expect(page.locator("#view .axis")).to_contain_text("where characters were lost")
    before = page.locator("#view .document").inner_text()
    page.locator("#view .r[data-i='1']").first.click()
    fill = page.locator(".tip button.name").nth(1)
    chosen = fill.locator("b").inner_text()
    assert len(chosen) == 1
    fill.click()
    expect(page.locator("#view .document .r.yours")).to_have_text(chosen, timeout=30_000)
    wait_for_result(page)
    expect(page.locator("#view .cards")).to_contain_text("non-ASCII characters in 3 spans")
    page.locator("#view .document .r.yours").click()
    page.click(".tip .undo")
    expect(page.locator("#view .document")).to_have_text(before, timeout=30_000, use_inner_text=True)
    expect(page.locator("#view .document .r.yours")).to_have_count(0)


def test_the_report_shows_the_notices(page, tmp_path):
    restoration = restore(DOCUMENT, [FakeExpert(0), FakeExpert(1)])
    notices = (*domain_notice(5.0, 0.1, 0.0), Notice("other", "<b>another</b> one"))
    (tmp_path / "report.html").write_text(replace(restoration, notices=notices).to_html())
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator(".axis")).to_contain_text("where characters were lost")
    assert page.locator(".warning").all_inner_texts() == [
        f"{notice.message[0].upper()}{notice.message[1:]}." for notice in notices
    ]


def test_the_report_mentions_small_local_gain(page, tmp_path):
    restoration = restore(DOCUMENT, [FakeExpert(0), FakeExpert(1)])
    for gain, times in ((0.5, 0), (0.0, 1)):
        path = tmp_path / f"{times}.html"
        path.write_text(replace(restoration, local_gain=gain).to_html())
        page.goto(path.as_uri())
        expect(page.locator(".document")).to_be_visible()
        expect(page.get_by_text("Local weights gained little")).to_have_count(times)


def test_the_report_mentions_the_time_limit(page, tmp_path):
    restoration = restore(f"a{MARK} b{MARK}", [FakeExpert(0), FakeExpert(1)], min_confidence=0.99)
    assert restoration.summary.unfilled == 2
    for stage, reason in (
        (None, "confidence too low"),
        ("alternatives", "confidence too low"),
        ("decoding", "see the notices below, or confidence too low"),
    ):
        path = tmp_path / f"{stage}.html"
        notices = time_limit_notice(stage, 2, "byte")
        path.write_text(replace(restoration, out_of_time=stage, notices=notices).to_html())
        page.goto(path.as_uri())
        expect(page.locator(".document")).to_be_visible()
        expect(page.get_by_text("Time limit reached while")).to_have_count(len(notices))
        expect(page.locator(".card", has_text="Unfilled")).to_have_text(f"Unfilled2{reason}")


def test_reference_files_are_used(page, address):
    page.goto(address)
    page.fill("#document", LOSS)
    page.set_input_files("#files", {"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n\0"})
    expect(page.locator("#error")).to_contain_text("a.png is a PNG image")
    damaged = "\u00e9t\u00e9".encode() + b"\xe9"
    page.set_input_files("#files", {"name": "half.txt", "mimeType": "text/plain", "buffer": damaged})
    expect(page.locator("#error")).to_contain_text("half.txt is damaged: it is not valid UTF-8")
    page.set_input_files("#files", {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a" * 1_000_001})
    expect(page.locator("#error")).to_contain_text("large.txt is too large: it has 1,000,001 bytes")
    page.set_input_files(
        "#files", [{"name": f"{index}.txt", "mimeType": "text/plain", "buffer": b""} for index in range(101)]
    )
    expect(page.locator("#error")).to_contain_text("too many reference files: 101, the limit is 100")
    expect(page.locator("#references li")).to_have_count(0)
    files = [{"name": name, "mimeType": "text/plain", "buffer": LINE.encode()} for name in ("<b>.txt", "two.txt")]
    page.set_input_files("#files", files)
    expect(page.locator("#references li")).to_have_count(2)
    page.get_by_label("Remove two.txt").click()
    expect(page.locator("#references li")).to_have_count(1)
    dropped = page.evaluate_handle("""() => {
      const carried = new DataTransfer();
      carried.items.add(new File(["else"], "dropped.txt"));
      return carried;
    }""")
    page.dispatch_event("#reference-panel", "drop", {"dataTransfer": dropped})
    expect(page.locator("#references li")).to_have_text([re.compile("<b>.txt"), re.compile("dropped.txt")])
    page.click("#restore")
    wait_for_result(page)
    assert page.locator("#view .document").inner_text().rstrip() == LINE.rstrip()
    page.locator("#view .document .r").first.click()
    expect(page.locator(".tip")).to_contain_text("copied from line 1 of <b>.txt")
    page.keyboard.press("Escape")

    page.click("summary")
    page.uncheck("#memory")
    expect(page.locator("#reference-state")).to_contain_text("not used")
    page.click("#restore")
    wait_for_result(page)
    expect(page.locator("#view .legend").first).not_to_contain_text("memory")
    page.click("#remove-references")
    expect(page.locator("#references")).to_be_hidden()


def test_a_report_of_a_megabyte_opens(page, tmp_path):
    line = f"a line of text with {MARK} one lost byte, and another {MARK}ere, of about eighty bytes.\n"
    observed = (line * 12_000).encode()
    starts = [match.start() for match in re.finditer(MARK.encode(), observed)]
    length = len(observed) - 2 * len(starts)
    positions = np.array(starts) - 2 * np.arange(len(starts))  # each mark of three bytes stands for one byte
    confidence = np.ones(length)
    confidence[positions] = np.linspace(0, 1, len(starts))
    restoration = Restoration(
        observed=observed,
        edits=tuple(Edit((start, start + 3), b"x", 0.5) for start in starts),
        experts=("one", "two"),
        positions=np.arange(length),
        read_confidence=confidence,
        read_field=np.full((length, 2), 0.5),
        read_regions=np.arange(length) // 5000 % 2,
        cost=Cost(),
    )
    path = tmp_path / "report.html"
    path.write_text(restoration.to_html())
    page.goto(path.as_uri(), timeout=0)
    count = "() => document.querySelector('.count').textContent"  # the page is drawn when it is loaded
    assert page.evaluate(count) == "24,000 spans"
    page.evaluate("() => document.querySelector('.document').focus()")
    page.keyboard.press("ArrowLeft")  # to the last span
    assert page.evaluate(count) == "24,000 of 24,000"
    # The document is divided into small blocks, and invisible blocks are not laid out.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    blocks = page.evaluate("""() => [...document.querySelectorAll(".block")].map((block) => [
      block.textContent.length, block.querySelector(".r").checkVisibility({ contentVisibilityAuto: true })])""")
    assert sum(length for length, _ in blocks) == len(line) * 12_000
    assert max(length for length, _ in blocks) < 10_000
    assert 0 < sum(seen for _, seen in blocks) < 10


OBSERVED = "The constable found tbe prisoner,, <i>in</i> the buming hose.\nHe saw nothing.\n"
CORRECTIONS = (
    Change(21, 22, "b", "h", 0.97, 7.5),
    Change(33, 34, ",", "", 0.6, math.inf),  # a deletion
    Change(51, 52, "m", "rn", 0.4, 1.5),
    Change(58, 58, "", "u", 0.3, 1.2),  # an insertion
)
SELECT = "getSelection().selectAllChildren(document.querySelector('.document'))"


def correct(text, *changes):
    correction = Correction(text, changes, 0.5, ("prose", "references"), (0.25, 0.75))
    return as_restoration(correction, open_document(text), Cost())


def picture():
    drawn = io.BytesIO()
    Image.new("L", (900, 40), 255).save(drawn, "PNG")
    return Picture(drawn.getvalue(), {(21, 22): Box(0.1, 0.2, 0.2, 0.8), (51, 52): Box(0.7, 0.2, 0.8, 0.8)})


def test_a_report_of_corrections(page, tmp_path):
    restoration = correct(OBSERVED, *CORRECTIONS)
    (tmp_path / "report.html").write_text(restoration.to_html("page.txt", [picture()]))
    page.goto((tmp_path / "report.html").as_uri())
    words = page.locator("#view").inner_text()
    assert "lost" not in words.lower()
    assert "restored" not in words.lower()
    expect(page.locator(".card").first).to_contain_text("5characters in 4 corrections")
    expect(page.locator(".legend").first).to_have_text("prose 25 %references 75 %")
    rows = page.locator(".corrections tbody tr:not(.line)")
    assert [row.split("\t") for row in rows.all_inner_texts()] == [
        ["1", "tbe", "the", "97 %", "7.5"],
        ["1", "prisoner,,", "prisoner,", "60 %", "\u221e"],
        ["1", "buming", "burning", "40 %", "1.5"],
        ["1", "hose.", "house.", "30 %", "1.2"],
    ]
    assert page.locator(".corrections .picture").count() == 2
    expect(page.locator(".remark")).to_contain_text("2 corrections have no picture")
    assert page.locator(".corrections img").first.evaluate("image => image.naturalWidth") == 900
    assert page.locator(".document s.was").all_inner_texts() == ["b", ",", "m"]
    page.evaluate(SELECT)
    chosen = page.evaluate("getSelection().toString()")
    assert chosen.strip() == restoration.text.strip()
    expect(page.locator(".count")).to_have_text("4 corrections")
    page.locator(".document .r[data-i='0']").hover()
    expect(page.locator(".tip")).to_contain_text("tbe became the")
    expect(page.locator(".tip")).to_contain_text("probability 97 %, log-odds 7.5 nats")
    expect(page.locator(".tip .picture img")).to_be_visible()
    page.locator(".corrections button.link").nth(1).click()
    expect(page.locator(".count")).to_have_text("2 of 4")
    page.locator(".corrections").locator("..").locator("select").select_option("probability")
    assert rows.first.inner_text().split("\t")[1] == "hose."
    page.locator(".panel .tools select").last.select_option("0.9")
    expect(page.locator(".count")).to_have_text("1 of 3")
    page.locator(".panel .tools select").last.select_option("0.5")
    expect(page.locator(".document s.was:visible")).to_have_count(1)


def test_a_report_of_a_deletion(page, tmp_path):
    (tmp_path / "report.html").write_text(correct("All is | well.\n", Change(7, 8, "|", "", 0.6, 2.0)).to_html())
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator(".legend").first).to_have_text("prose 25 %references 75 %")
    assert page.locator(".chart .lost").get_attribute("d")
    page.locator(".document s.was").click()
    expect(page.locator(".tip")).to_have_text("| became nothingprobability 60 %, log-odds 2.0 nats")
    expect(page.locator(".count")).to_have_text("1 of 1")


def test_a_report_without_corrections(page, tmp_path):
    (tmp_path / "report.html").write_text(correct("All is well.\n").to_html("page.txt"))
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator(".warning")).to_contain_text("Nothing had to be changed")
    expect(page.locator(".document")).to_have_text("All is well.")
    assert page.locator(".corrections").count() == 0


OCR_LINE = "The constable found tbe prisoner in the house, and saw nothing of <b>them</b>."


@pytest.mark.parametrize("channel", ["auto", "mojibake"])
def test_mojibake_is_corrected_on_the_page(page, address, channel):
    page.goto(address)
    page.fill("#document", "Herr M\u00c3\u00bcller wohnt in K\u00c3\u00b6ln am Fluss.\n")
    page.locator("details summary").click()
    page.select_option("#lost", f"channel:{channel}")
    page.click("#restore")
    expect(page.locator("#done")).to_have_text("Corrected", timeout=90_000)
    expect(page.locator(".corrections tbody tr")).to_have_count(2)


def test_ocr_errors_are_corrected_on_the_page(page, address):
    page.goto(address)
    page.fill("#document", f"{OCR_LINE}\n")
    page.locator("details summary").click()
    page.select_option("#lost", "channel:ocr")
    page.click("#restore")
    expect(page.locator("#view .document")).to_be_visible(timeout=90_000)
    expect(page.locator("#done")).to_have_text("Corrected")
    expect(page.locator(".corrections tbody tr")).to_have_count(1)
    page.locator("#view .r[data-i='0']").click()
    expect(page.locator(".tip")).to_contain_text("tbe became the")
    assert page.locator(".tip input").count() == 0  # no choices
    page.locator("details summary").scroll_into_view_if_needed()
    with page.expect_download() as report:
        page.click("#save-report")
    assert '"observed":"b"' in report.value.path().read_text()


def test_an_ocr_file_is_corrected_in_its_format(page, address):
    page.goto(address)
    markup = write_hocr([OCR_LINE.split()])
    page.set_input_files("#file", {"name": "page.hocr", "mimeType": "text/html", "buffer": markup})
    expect(page.locator("#state")).to_have_text("hOCR file: its words are corrected")
    expect(page.locator("#document")).to_have_value(re.compile(r"^The constable found tbe .* <b>them</b>"))
    page.click("#restore")
    expect(page.locator("#view .document s.was")).to_have_text("b", timeout=90_000)
    expect(page.locator("#save-text")).to_have_text("Download hOCR")
    with page.expect_download() as corrected:
        page.click("#save-text")
    assert corrected.value.suggested_filename == "page.restored.hocr"
    data = corrected.value.path().read_bytes()
    assert detect_ocr_format(data) == "hOCR"
    assert read_pages(data).text.split() == OCR_LINE.replace("tbe", "the").split()
    page.fill("#document", f"The constable found t{MARK}e prisoner.")  # from now on a plain text
    expect(page.locator("#state")).to_contain_text("1 mark")
    page.click("#restore")
    expect(page.locator("#done")).to_have_text("Restored")
    wait_for_result(page)
    with page.expect_download() as text:
        page.click("#save-text")
    assert text.value.suggested_filename == "page.restored.txt"
    assert text.value.path().read_text().startswith("The constable found t")


def test_an_opened_file_is_sent_unchanged_until_it_is_edited(page, address):
    page.goto(address)
    data = "Le gar\u00e7on a mang\u00e9 une cr\u00eape, tr?s bonne.\r\n".encode("cp1252")
    page.set_input_files("#file", {"name": "note.txt", "mimeType": "text/plain", "buffer": data})
    expect(page.locator("#state")).to_contain_text("encoding windows-1252")
    page.click("summary")
    page.fill("#mark", "?")
    requests = []
    page.on("request", lambda request: requests.append(request) if request.url.endswith("/restore") else None)
    page.click("#restore")
    wait_for_result(page)
    sent = requests[-1].post_data_json
    assert (base64.b64decode(sent["data"]), sent["encoding"]) == (data, "windows-1252")
    page.fill("#document", "\u00e9t? <html class='ocr_page'>")
    page.click("#restore")
    expect(page.locator("#outdated")).to_be_hidden()
    wait_for_result(page)
    assert requests[-1].post_data_json["text"] == "\u00e9t? <html class='ocr_page'>"
    with page.expect_download() as text:
        page.click("#save-text")
    assert text.value.path().read_bytes().startswith(b"\xe9t")  # in the encoding of the file
