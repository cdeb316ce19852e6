/* The page: it restores a document, shows the result, and restores what is near the reader's choices again. */
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), strict = new TextDecoder("utf-8", { fatal: true }), encoder = new TextEncoder();
  const UTF8 = "utf-8";
  // bytes is the damaged document in UTF-8, which the text box shows; file holds the bytes of the opened file, and
  // encoding is what they were in. Once the text is edited, the box is the document, with the line ends that the bytes
  // had (crlf). asked is the document that the shown result belongs to. references holds them. choices says what the
  // reader chose, by the place in the document, and read which of that the result knows of; history is for undoing.
  // opening is the reading of a file, and running a restoration.
  const state = { bytes: new Uint8Array(), file: null, encoding: UTF8, edited: false, crlf: false, name: "document.txt", choices: new Map(), read: new Map(), history: [], references: [], result: null, asked: null, view: null, opening: null, running: null, reading: 0, told: null };
  // What the settings are called on this page, by the names of the API.
  const SETTINGS = {
    mark: "Mark of a lost byte or character", gap: "Mark of a gap of unknown length", max_gap: "Longest such gap", lost: "What is lost", encoding: "Encoding of the file",
    min_confidence: "Leave open what is less sure", min_gap_confidence: "Leave such a gap open if its fill is less sure", alternatives: "Alternatives for each gap", seed: "Seed", experts: "Experts that may be trusted", memory: "remember what stands elsewhere", references: "Files like this one", rate: "lose", burst: "in bursts of",
  };

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

  function setDocument(bytes, name, encoding = state.encoding) {
    const text = decoder.decode(bytes);
    Object.assign(state, { bytes, encoding, edited: false });
    clearResult();
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
    if (!$("document").value) Object.assign(state, { file: null, encoding: UTF8 });
    outdate();
    describe();
  }
  /** Grey out a result that is not of the document in the box. */
  function outdate() {
    const changed = state.result !== null && $("document").value !== state.asked.text;
    $("outdated").hidden = !changed;
    for (const id of ["view", "downloads"]) $(id).classList.toggle("outdated", changed);
    return changed;
  }
  /** Show no result: there is none of this document. */
  function clearResult() {
    state.view?.destroy();
    Object.assign(state, { view: null, result: null, asked: null, choices: new Map(), read: new Map(), history: [] });
    $("downloads").hidden = $("undo").hidden = true;
    $("empty").hidden = false;
    outdate();
  }
  function describe() {
    const text = $("document").value, mark = $("mark").value, gap = $("gap").value;
    const count = (sign) => (sign ? text.split(sign).length - 1 : 0);
    const gaps = count(gap);
    $("state").textContent = text ? `${current().length.toLocaleString("en")} bytes, ${count(mark).toLocaleString("en")} marked as lost${gaps ? `, ${gaps} gap${gaps === 1 ? "" : "s"}` : ""}${state.encoding === UTF8 ? "" : `; read as ${state.encoding}`}` : "nothing yet";
  }
  const narrow = () => matchMedia("(max-width: 56rem)").matches;
  function say(message, kind = "error") {
    $("error").textContent = message;
    $("error").className = kind;
    $("error").hidden = !message;
    if (message && narrow()) $("error").scrollIntoView({ block: "nearest" }); // it stands above the result
  }

  async function ask(path, body, options = {}) {
    const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", ...options.headers }, body: JSON.stringify(body), signal: options.signal });
    if (response.ok) return response;
    let said = { detail: `${response.status} ${response.statusText}` };
    try { said = await response.json(); } catch { /* not JSON: show the status alone */ }
    throw new Error(worded(said));
  }
  /** An error of the server, with options called as they are on this page. */
  function worded({ detail, error, problem, option, advice = [] }) {
    const setting = (name) => SETTINGS[name] ?? name;
    if (Array.isArray(detail)) return detail.map((one) => `${one.loc.slice(1).map(setting).join(", ")}: ${one.msg}`).join("; ");
    const about = option ? `${setting(option)}: ${problem}` : problem ?? detail ?? error;
    return [about, ...advice.filter((one) => SETTINGS[one.option]).map((one) => `the setting “${setting(one.option)}” ${one.effect}`)].join("; ");
  }

  function working(on, everything = false) {
    $("restore").disabled = on;
    $("cancel").hidden = !on;
    $("progress").hidden = !on;
    $("view").classList.toggle("stale", on && everything);
    if (on) report({ doing: "waiting" });
  }
  const STAGES = { waiting: "waiting for its turn", "choosing experts": "choosing experts", lengths: "finding lengths", inferring: "reading", decoding: "filling in", alternatives: "weighing alternatives", correcting: "correcting" };
  /** Say how far the work is, or how many are served before, and how many choices wait until it is done. */
  function report({ doing, share = 0, place }) {
    const percent = Math.round(100 * share), bar = $("progress"), waiting = pending().length - state.reading;
    state.told = { doing, share, place };
    bar.firstElementChild.style.width = `${percent}%`;
    bar.lastElementChild.textContent = `${STAGES[doing]}${doing !== "waiting" ? ` ${percent} %` : place ? `: number ${place} in the line` : ""}${waiting ? `; ${waiting} more ${waiting === 1 ? "choice waits" : "choices wait"}` : ""}`;
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

  /** Restore the document anew. What was chosen in it stays chosen. */
  async function restore() {
    await state.opening;
    if (state.running) return;
    const bytes = current(), text = $("document").value;
    if (!bytes.length) { say("there is no document yet: paste one, open a file, or take the example"); $("document").focus(); return; }
    if (chosenExperts()?.length === 0) { say("no expert may be trusted: choose at least one in the settings"); return; }
    if (outdate()) clearResult();
    if (await run({ bytes, text, name: state.name, encoding: state.encoding }, null)) await readChoices();
    else clearResult();
  }

  /** Ask for a restoration with the choices that there are, and show it; with `previous`, only near what changed since. */
  async function run(asked, previous) {
    say("");
    const choices = new Map(state.choices), { text: _, ...record } = previous ?? {};
    Object.assign(state, { running: new AbortController(), reading: pending().length });
    working(true, !previous);
    const misread = $("lost").value === "ocr";
    const wanted = {
      data: toBase64(asked.bytes), mark: $("mark").value, gap: $("gap").value || null, max_gap: +$("max-gap").value, lost: misread ? "auto" : $("lost").value, channel: misread ? "ocr" : "mask",
      min_confidence: +$("least").value / 100, min_gap_confidence: +$("least-gap").value / 100, alternatives: misread ? 0 : +$("alternatives").value, seed: +$("seed").value, encoding: UTF8,
      memory: $("memory").checked, references: $("memory").checked ? state.references.map(({ name, text }) => ({ name, text })) : [],
      experts: chosenExperts(), choices: [...choices.values()], previous: previous && record,
    };
    try {
      const response = await ask("/v1/restore", wanted, { signal: state.running.signal, headers: { Accept: "application/x-ndjson" } });
      for await (const line of linesOf(response)) {
        if (line.error) throw new Error(worded(line));
        if (line.result) {
          state.read = choices;
          show({ ...line.result, encoding: asked.encoding }, asked);
        } else report(line);
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
    const first = !state.view, scroll = window.scrollY, there = state.view?.place(), focused = $("view").contains(document.activeElement);
    state.view?.destroy();
    Object.assign(state, { result, asked });
    $("empty").hidden = true;
    $("downloads").hidden = false;
    $("done").textContent = result.correction ? "Corrected" : "Restored";
    outdate();
    state.view = ConservatorView.draw($("view"), result, result.correction ? {} : { choose, undo });
    state.view.pend(pending());
    if (there) {
      window.scrollTo(0, scroll);
      if (focused) $("view").querySelector(".document").focus({ preventScroll: true });
      state.view.resume(there);
    }
    if (result.correction && !result.changes.length) say("nothing had to be corrected in this document", "hint");
    else if (!result.summary.lost && !result.summary.fixed) say("nothing was lost in this document: it has no marks", "hint");
    else if (first && narrow()) $("result").scrollIntoView({ block: "start" });
  }

  /** The choices that the shown result does not know of yet; the text is null where one was undone. */
  function pending() {
    const { choices, read } = state;
    return [
      ...[...choices].filter(([key, choice]) => read.get(key)?.text !== choice.text).map(([, choice]) => choice),
      ...[...read].filter(([key]) => !choices.has(key)).map(([, { origin }]) => ({ origin, text: null })),
    ];
  }
  /** Take other choices, and read them, together with those that come while others are read. */
  function alter(choices) {
    if (outdate()) { say("the document was changed since: restore it again first"); return; }
    state.history.push(state.choices);
    take(choices);
  }
  function take(choices) {
    state.choices = choices;
    $("undo").hidden = !state.history.length;
    show(state.result, state.asked);
    if (state.running) report(state.told);
    readChoices();
  }
  async function readChoices() {
    while (!state.running && state.result && pending().length) {
      if (await run(state.asked, state.result)) continue;
      if (!state.result) return;
      Object.assign(state, { choices: new Map(state.read), history: [] }); // as the result is
      $("undo").hidden = true;
      show(state.result, state.asked);
      return;
    }
  }
  const without = (origin) => new Map([...state.choices].filter(([, one]) => one.origin[1] <= origin[0] || one.origin[0] >= origin[1]));
  const choose = ({ origin }, { text }) => alter(without(origin).set(String(origin), { origin, text }));
  const undo = ({ origin }) => alter(without(origin));

  /** Add files to those that are like the document, if they are text, and neither too many nor too large. */
  async function addReferences(files) {
    say("");
    const { bytes: most, files: number, name: longest } = $("reference-panel").dataset, added = [...state.references];
    for (const file of [...files]) {
      if (file.size > +most) { say(`${file.name} has ${file.size.toLocaleString("en")} bytes; files like the document may have ${(+most).toLocaleString("en")} together`); return; }
      const name = file.name.slice(-longest);
      let bytes, text;
      try { ({ bytes } = await read(file)); } catch (error) { say(error.message); return; }
      try { text = strict.decode(bytes); } catch { say(`${file.name} is damaged UTF-8: only undamaged text can be remembered`); return; }
      const known = added.findIndex((one) => one.name === name);
      if (known >= 0) added.splice(known, 1); // the file was opened again
      added.push({ name, text, size: bytes.length });
    }
    const size = added.reduce((sum, one) => sum + one.size, 0);
    if (added.length > +number) { say(`these would be ${added.length} files like the document; at most ${number} are read`); return; }
    if (size > +most) { say(`files like the document would have ${size.toLocaleString("en")} bytes together; at most ${(+most).toLocaleString("en")} are read`); return; }
    state.references = added;
    listReferences();
  }
  function listReferences() {
    const empty = !state.references.length;
    $("references").replaceChildren(...state.references.map((one) => {
      const item = document.createElement("li"), name = document.createElement("span"), size = document.createElement("span"), remove = document.createElement("button");
      Object.assign(name, { className: "name", textContent: one.name, title: one.name });
      Object.assign(size, { className: "size", textContent: `${one.size.toLocaleString("en")} bytes` });
      Object.assign(remove, { type: "button", textContent: "×", ariaLabel: `Remove ${one.name}` });
      remove.addEventListener("click", () => { state.references = state.references.filter((other) => other !== one); listReferences(); });
      item.append(name, size, remove);
      return item;
    }));
    $("references").hidden = $("forget").hidden = empty;
    $("reference-state").textContent = empty ? none : $("memory").checked ? "what they have in common with the document is remembered" : "not read: remembering is switched off in the settings";
  }
  const none = $("reference-state").textContent;

  function save(content, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  /** The text of a file in UTF-8, and the encoding that it was in; the server says what a file is that is no text. */
  async function read(file, data = null, encoding = null) {
    const most = +$("reference-panel").dataset.bytes, name = file.name.slice(-$("reference-panel").dataset.name);
    if (!data && file.size > most) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${most.toLocaleString("en")} are read here`);
    const original = data ?? new Uint8Array(await file.arrayBuffer());
    const answer = await (await ask("/v1/read", { data: toBase64(original), name, encoding, mark: $("mark").value || "\ufffd", gap: $("gap").value || null })).json();
    return { bytes: fromBase64(answer.data), encoding: answer.encoding, original };
  }
  const named = (ending) => state.asked.name.replace(/(\.[^.]*)?$/, (old) => `.restored${ending || old}`);

  $("form").addEventListener("submit", (event) => { event.preventDefault(); restore(); });
  $("cancel").addEventListener("click", () => state.running?.abort());
  $("undo").addEventListener("click", () => { if (outdate()) say("the document was changed since: restore it again first"); else take(state.history.pop()); });
  $("document").addEventListener("input", edited);
  $("document").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("form").requestSubmit(); } });
  for (const id of ["mark", "gap"]) $(id).addEventListener("input", describe);
  for (const [id, shown] of [["rate", "rate-shown"], ["least", "least-shown"], ["least-gap", "least-gap-shown"]]) $(id).addEventListener("input", () => { $(shown).value = $(id).value; });
  $("open").addEventListener("click", () => $("file").click());
  /** Open a file. If the reader asks for its restoration before it is read, that waits. */
  function openFile(file, data = null) {
    if (file && !state.running) state.opening = readDocument(file, data);
    return state.opening;
  }
  async function readDocument(file, data) {
    say("");
    try {
      const { bytes, encoding, original } = await read(file, data, $("encoding").value.trim() || null);
      state.file = { name: file.name, data: original };
      setDocument(bytes, file.name, encoding);
    } catch (error) { say(error.message); }
  }
  $("file").addEventListener("change", async () => { await openFile($("file").files[0]); $("file").value = ""; });
  $("encoding").addEventListener("change", () => { if (state.file && !state.edited) openFile(state.file, state.file.data); });
  $("add").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", async () => { await addReferences($("files").files); $("files").value = ""; });
  $("forget").addEventListener("click", () => { state.references = []; listReferences(); });
  $("memory").addEventListener("change", listReferences);
  for (const [area, taken] of [[$("document"), (files) => openFile(files[0])], [$("reference-panel"), addReferences]]) {
    area.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); area.classList.add("dropping"); } });
    area.addEventListener("dragleave", () => area.classList.remove("dropping"));
    area.addEventListener("drop", (event) => { area.classList.remove("dropping"); if (event.dataTransfer.files.length) { event.preventDefault(); taken(event.dataTransfer.files); } });
  }
  $("sample").addEventListener("click", async () => { say(""); if (state.running) return; state.file = null; setDocument(new Uint8Array(await (await fetch("/static/sample.md")).arrayBuffer()), "field_station.md", UTF8); });
  $("damage").addEventListener("click", async () => {
    say("");
    const bytes = current();
    if (state.running) return;
    if (!bytes.length) { say("there is no document to damage yet: paste one, open a file, or take the example"); return; }
    try {
      const answer = await (await ask("/v1/damage", { data: toBase64(bytes), rate: +$("rate").value / 100, burst: +$("burst").value, seed: +$("seed").value })).json();
      $("mark").value = "\ufffd";
      setDocument(fromBase64(answer.data));
    } catch (error) { say(error.message); }
  });
  $("save-text").addEventListener("click", async () => {
    const { text, encoding } = state.result;
    if (encoding === UTF8) { save(text, named(""), "text/plain;charset=utf-8"); return; }
    try {
      const answer = await (await ask("/v1/write", { text, encoding })).json();
      if (answer.encoding !== encoding) say(`the text was written as UTF-8: a restored character has no place in ${encoding}`, "hint");
      save(fromBase64(answer.data), named(""), "application/octet-stream");
    } catch (error) { say(error.message); }
  });
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
