/* The page: it restores a document, shows the result, and restores again with the reader's choices as known text. */
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), strict = new TextDecoder("utf-8", { fatal: true }), encoder = new TextEncoder();
  // bytes is the damaged document, which the text box shows. Once the text is edited, the box is the document, with the
  // line ends that the bytes had (crlf). asked is the document that the shown result belongs to. like holds references.
  const state = { bytes: new Uint8Array(), edited: false, crlf: false, name: "document.txt", history: [], like: [], result: null, asked: null, view: null, running: null };

  const toBase64 = (bytes) => {
    let binary = "";
    for (let start = 0; start < bytes.length; start += 0x8000) binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
    return btoa(binary);
  };
  const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const current = () => {
    if (!state.edited) return state.bytes;
    const text = $("document").value;
    return encoder.encode(state.crlf ? text.replaceAll("\n", "\r\n") : text);
  };

  function setDocument(bytes, name) {
    const text = decoder.decode(bytes);
    state.bytes = bytes;
    state.edited = false;
    state.crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
    if (name) state.name = name;
    $("document").value = text;
    describe();
  }
  function edited() {
    if (!state.edited) {
      try { strict.decode(state.bytes); } catch { say("bytes that are not UTF-8 are marks now, since the text was edited", "hint"); }
    }
    state.edited = true;
    describe();
  }
  function describe() {
    const text = $("document").value, mark = $("mark").value, gap = $("gap").value;
    const count = (sign) => (sign ? text.split(sign).length - 1 : 0);
    const gaps = count(gap);
    $("state").textContent = text ? `${current().length.toLocaleString("en")} bytes, ${count(mark).toLocaleString("en")} marked as lost${gaps ? `, ${gaps} gap${gaps === 1 ? "" : "s"}` : ""}` : "nothing yet";
  }
  function say(message, kind = "error") {
    $("error").textContent = message;
    $("error").className = kind;
    $("error").hidden = !message;
  }

  async function ask(path, body, options = {}) {
    const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", ...options.headers }, body: JSON.stringify(body), signal: options.signal });
    if (response.ok) return response;
    let detail = `${response.status} ${response.statusText}`;
    try {
      const said = (await response.json()).detail;
      detail = Array.isArray(said) ? said.map((one) => `${one.loc.slice(1).join(".")}: ${one.msg}`).join("; ") : said;
    } catch { /* not JSON: show the status alone */ }
    throw new Error(detail);
  }

  function working(on) {
    $("restore").disabled = on;
    $("cancel").hidden = !on;
    $("progress").hidden = !on;
    $("view").classList.toggle("stale", on);
    if (on) report("waiting", 0);
  }
  const STAGES = { waiting: "waiting for its turn", "choosing experts": "choosing experts", lengths: "finding lengths", inferring: "reading", decoding: "filling in", alternatives: "weighing alternatives" };
  function report(doing, share) {
    const percent = Math.round(100 * share), bar = $("progress");
    bar.firstElementChild.style.width = `${percent}%`;
    bar.lastElementChild.textContent = doing === "waiting" ? STAGES[doing] : `${STAGES[doing]} ${percent} %`;
    bar.setAttribute("aria-valuenow", percent);
  }

  async function* linesOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) yield JSON.parse(line);
    }
  }

  function chosenExperts() {  // null lets the document choose: nobody was left out
    const boxes = [...$("experts").querySelectorAll("input")], chosen = boxes.filter((box) => box.checked);
    return chosen.length === boxes.length ? null : chosen.map((box) => box.value);
  }

  /** Restore the document; found says what the marks are, if that is known from before. */
  async function restore(found) {
    if (state.running) return false;
    say("");
    const bytes = current(), text = $("document").value, name = state.name;
    if (!bytes.length) { say("there is no document yet: paste one, open a file, or take the example"); $("document").focus(); return false; }
    state.running = new AbortController();
    working(true);
    const wanted = {
      data: toBase64(bytes), mark: $("mark").value, gap: $("gap").value || null, max_gap: +$("max-gap").value, lost: ($("lost").value === "auto" && found) || $("lost").value,
      min_confidence: +$("least").value / 100, alternatives: +$("alternatives").value, seed: +$("seed").value,
      memory: $("memory").checked, like: $("memory").checked ? state.like.map(({ name, text }) => ({ name, text })) : [],
      experts: chosenExperts(),
    };
    try {
      const response = await ask("/v1/restore", wanted, { signal: state.running.signal, headers: { Accept: "application/x-ndjson" } });
      for await (const line of linesOf(response)) {
        if (line.error) throw new Error(line.error);
        if (line.result) show(line.result, { bytes, text, name });
        else report(line.doing, line.share);
      }
      return true;
    } catch (error) {
      if (error.name !== "AbortError") say(error.message);
      return false;
    } finally {
      state.running = null;
      working(false);
    }
  }

  function show(result, asked) {
    state.result = result;
    state.asked = asked;
    state.view?.destroy();
    $("empty").hidden = true;
    $("downloads").hidden = false;
    state.view = ConservatorView.draw($("view"), result, { choose });
    if (!result.summary.lost) say("nothing was lost in this document: it has no marks", "hint");
    else if (matchMedia("(max-width: 56rem)").matches) $("result").scrollIntoView({ block: "start" });
  }

  /** A choice for a gap becomes part of the document, and the rest is restored again. */
  async function choose(piece, fill) {
    if (state.running) return;
    if ($("document").value !== state.asked.text) { say("the document was changed since: restore it again first"); return; }
    const before = state.asked.bytes, [start, stop] = piece.origin;
    const middle = encoder.encode(fill.text);
    const bytes = new Uint8Array(start + middle.length + before.length - stop);
    bytes.set(before.subarray(0, start));
    bytes.set(middle, start);
    bytes.set(before.subarray(stop), start + middle.length);
    state.history.push(before);
    setDocument(bytes);
    const scroll = window.scrollY;
    if (await restore(state.result.lost)) { // what is chosen now may lie outside ASCII: the marks are still the same
      window.scrollTo(0, scroll);
      const next = state.result.pieces.filter((one) => one.origin).findIndex((one) => one.origin[0] >= start);
      if (next >= 0) state.view.select(next, false);
      $("view").querySelector(".document")?.focus({ preventScroll: true });
    } else setDocument(state.history.pop());
    $("undo").hidden = !state.history.length;
  }

  /** Add files to those that are like the document, if they are text, and neither too many nor too large. */
  async function addReferences(files) {
    say("");
    const { bytes: most, files: number, name: longest } = $("like").dataset, added = [...state.like];
    for (const file of [...files]) {
      if (file.size > +most) { say(`${file.name} has ${file.size.toLocaleString("en")} bytes; files like the document may have ${(+most).toLocaleString("en")} together`); return; }
      const bytes = new Uint8Array(await file.arrayBuffer()), name = file.name.slice(-longest);
      if (bytes.includes(0)) { say(`${file.name} is a binary file: only text can be remembered`); return; }
      let text;
      try { text = strict.decode(bytes); } catch { say(`${file.name} is not UTF-8: only text can be remembered`); return; }
      const known = added.findIndex((one) => one.name === name);
      if (known >= 0) added.splice(known, 1); // the file was opened again
      added.push({ name, text, size: bytes.length });
    }
    const size = added.reduce((sum, one) => sum + one.size, 0);
    if (added.length > +number) { say(`these would be ${added.length} files like the document; at most ${number} are read`); return; }
    if (size > +most) { say(`files like the document would have ${size.toLocaleString("en")} bytes together; at most ${(+most).toLocaleString("en")} are read`); return; }
    state.like = added;
    listReferences();
  }
  function listReferences() {
    const empty = !state.like.length;
    $("references").replaceChildren(...state.like.map((one) => {
      const item = document.createElement("li"), name = document.createElement("span"), size = document.createElement("span"), remove = document.createElement("button");
      Object.assign(name, { className: "name", textContent: one.name, title: one.name });
      Object.assign(size, { className: "size", textContent: `${one.size.toLocaleString("en")} bytes` });
      Object.assign(remove, { type: "button", textContent: "×", ariaLabel: `Remove ${one.name}` });
      remove.addEventListener("click", () => { state.like = state.like.filter((other) => other !== one); listReferences(); });
      item.append(name, size, remove);
      return item;
    }));
    $("references").hidden = $("forget").hidden = empty;
    $("like-state").textContent = empty ? none : $("memory").checked ? "what they have in common with the document is remembered" : "not read: remembering is switched off in the settings";
  }
  const none = $("like-state").textContent;

  function save(content, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const named = (ending) => state.asked.name.replace(/(\.[^.]*)?$/, (old) => `.restored${ending || old}`);

  $("form").addEventListener("submit", (event) => { event.preventDefault(); state.history = []; $("undo").hidden = true; restore(); });
  $("cancel").addEventListener("click", () => state.running?.abort());
  $("undo").addEventListener("click", () => { if (state.running) return; setDocument(state.history.pop()); $("undo").hidden = !state.history.length; restore(state.result.lost); });
  $("document").addEventListener("input", edited);
  $("document").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("form").requestSubmit(); } });
  for (const id of ["mark", "gap"]) $(id).addEventListener("input", describe);
  for (const [id, shown] of [["rate", "rate-shown"], ["least", "least-shown"]]) $(id).addEventListener("input", () => { $(shown).value = $(id).value; });
  $("open").addEventListener("click", () => $("file").click());
  const take = async (file) => { if (file) setDocument(new Uint8Array(await file.arrayBuffer()), file.name); };
  $("file").addEventListener("change", () => take($("file").files[0]));
  $("add").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", async () => { await addReferences($("files").files); $("files").value = ""; });
  $("forget").addEventListener("click", () => { state.like = []; listReferences(); });
  $("memory").addEventListener("change", listReferences);
  for (const [area, taken] of [[$("document"), (files) => take(files[0])], [$("like"), addReferences]]) {
    area.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); area.classList.add("dropping"); } });
    area.addEventListener("dragleave", () => area.classList.remove("dropping"));
    area.addEventListener("drop", (event) => { area.classList.remove("dropping"); if (event.dataTransfer.files.length) { event.preventDefault(); taken(event.dataTransfer.files); } });
  }
  $("sample").addEventListener("click", async () => { say(""); setDocument(new Uint8Array(await (await fetch("/static/sample.md")).arrayBuffer()), "field_station.md"); });
  $("damage").addEventListener("click", async () => {
    say("");
    const bytes = current();
    if (!bytes.length) { say("there is no document to damage yet: paste one, open a file, or take the example"); return; }
    try {
      const answer = await (await ask("/v1/damage", { data: toBase64(bytes), rate: +$("rate").value / 100, burst: +$("burst").value, seed: +$("seed").value })).json();
      $("mark").value = "\ufffd";
      setDocument(fromBase64(answer.data));
    } catch (error) { say(error.message); }
  });
  $("save-text").addEventListener("click", () => save(state.result.text, named(""), "text/plain;charset=utf-8"));
  $("save-json").addEventListener("click", () => save(JSON.stringify(state.result), named(".json"), "application/json"));
  $("save-report").addEventListener("click", async () => {
    const { text, ...record } = state.result;
    try { save(await (await ask("/v1/report", { title: state.asked.name, record })).blob(), named(".html"), "text/html"); } catch (error) { say(error.message); }
  });

  fetch("/v1/experts").then((response) => response.json()).then((experts) => {
    for (const expert of experts) {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: expert.name, checked: true });
      const label = document.createElement("label");
      label.append(box, expert.name);
      $("experts").append(label);
    }
  }).catch(() => say("the server does not answer"));
})();
