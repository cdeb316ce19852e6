/* The page: restores a document, shows the result, and restores the surroundings of the user's choices again. */
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), strict = new TextDecoder("utf-8", { fatal: true }), encoder = new TextEncoder();
  const UTF8 = "utf-8";
  const CHANNEL = "channel:"; // prefix of the values of the type of damage that are channels
  // bytes: the document in UTF-8, which the text box shows; null after an edit: the text in the box is the document, with
  // the line ends of the bytes (crlf). file: name, bytes and OCR format of the opened file; null if the document is another
  // text, such as an edited one. encoding: encoding of the file, also after an edit. result: the shown result. source: the
  // document of the result, as sent (content), and its restored file in base64 (restored). references: the reference
  // files. choices: texts that the user chose, by span. applied: the choices that the result contains. history: earlier
  // choices, for undo.
  // opening: promise of the file that is being opened. running: AbortController of the running restoration.
  // sentChoices: number of new choices in the running restoration. progress: last progress update.
  const state = { bytes: new Uint8Array(), file: null, encoding: UTF8, crlf: false, name: "document.txt", choices: new Map(), applied: new Map(), history: [], references: [], result: null, source: null, view: null, opening: null, running: null, sentChoices: 0, progress: null };
  /** Label of an option on this page; undefined if the page does not have it. */
  const labelOf = (name) => {
    const label = $(String(name).replaceAll("_", "-"))?.closest("label");
    const text = [...(label?.childNodes ?? [])].find((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    return text?.data.split(/[:;,]/)[0].trim() ?? { experts: "Experts", references: "Reference files" }[name];
  };
  /** Values of the settings, by the names of the options; an empty field with a placeholder is null. */
  const settings = () => Object.fromEntries([...$("settings").querySelectorAll("[name]")].map(({ name, type, value, checked, placeholder }) => {
    if (type === "checkbox") return [name, checked];
    if (type === "textarea") return [name, value.split("\n").map((line) => line.trim()).filter(Boolean)];
    if (!value && placeholder) return [name, null];
    return [name, type === "range" ? value / 100 : type === "number" ? +value : value];
  }));

  const toBase64 = (bytes) => {
    let binary = "";
    for (let start = 0; start < bytes.length; start += 0x8000) binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
    return btoa(binary);
  };
  const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const currentBytes = () => {
    if (state.bytes) return state.bytes;
    const text = $("document").value;
    return encoder.encode(state.crlf ? text.replaceAll("\n", "\r\n") : text);
  };

  /** Name of the document as text: that of an OCR file gets another suffix. */
  const textName = () => (state.file?.format ? state.name.replace(/(\.[^.]*)?$/, ".txt") : state.name);

  function setDocument(bytes, name, encoding, file = null) {
    const text = decoder.decode(bytes), crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text);
    Object.assign(state, { bytes, name, encoding, file, crlf });
    clearResult();
    $("document").value = text;
    describe();
  }
  function onEdit() {
    if (state.bytes) {
      try { strict.decode(state.bytes); } catch { showMessage("the document contained invalid UTF-8; since your edit, these bytes are marks", "hint"); }
    }
    Object.assign(state, { bytes: null, name: textName(), file: null, ...(!$("document").value && { encoding: UTF8 }) });
    markOutdated();
    describe();
  }
  /** Grey out a result that does not belong to the document in the box; return whether there is one. */
  function markOutdated() {
    const changed = state.result !== null && $("document").value !== state.source.text;
    $("outdated").hidden = !changed;
    for (const id of ["view", "downloads"]) $(id).classList.toggle("outdated", changed);
    return changed;
  }
  /** Remove the result. */
  function clearResult() {
    state.view?.destroy();
    Object.assign(state, { view: null, result: null, source: null, choices: new Map(), applied: new Map(), history: [] });
    $("downloads").hidden = $("undo").hidden = true;
    $("empty").hidden = false;
    markOutdated();
  }
  /** Show the size, the number of marks and the encoding of the document, or the format of an OCR file. */
  function describe() {
    if (state.file?.format) { $("state").textContent = `${state.file.format} file: its words are corrected`; return; }
    const text = $("document").value, mark = $("mark").value, gap = $("gap").value;
    const count = (marker) => (marker ? text.split(marker).length - 1 : 0);
    const marks = count(mark), gaps = count(gap);
    $("state").textContent = text ? `${currentBytes().length.toLocaleString("en")} bytes, ${marks.toLocaleString("en")} mark${marks === 1 ? "" : "s"}${gaps ? `, ${gaps} gap${gaps === 1 ? "" : "s"}` : ""}${state.encoding === UTF8 ? "" : `; encoding ${state.encoding}`}` : "no document yet";
  }
  const narrow = () => matchMedia("(max-width: 56rem)").matches;
  /** Show a message, or hide it if it is empty; kind is "error" or "hint". */
  function showMessage(message, kind = "error") {
    $("error").textContent = message;
    $("error").className = kind;
    $("error").hidden = !message;
    if (message && narrow()) $("error").scrollIntoView({ block: "nearest" }); // it is above the result
  }

  async function post(path, body, options = {}) {
    const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json", ...options.headers }, body: JSON.stringify(body), signal: options.signal });
    if (response.ok) return response;
    let answer = { detail: `${response.status} ${response.statusText}` };
    try { answer = await response.json(); } catch { /* not JSON: show the status */ }
    throw new Error(errorText(answer));
  }
  /** Text of an error of the server, with the labels of this page instead of the names of options. */
  function errorText({ detail, error, problem, option, advice = [] }) {
    const label = (name) => labelOf(name) ?? name;
    if (Array.isArray(detail)) return detail.map(({ loc, msg }) => `${loc.slice(1).map(label).join(", ")}: ${msg}`).join("; ");
    const message = option ? `${label(option)}: ${problem}` : problem ?? detail ?? error;
    return [message, ...advice.filter((item) => labelOf(item.option)).map((item) => `the setting “${label(item.option)}” ${item.effect}`)].join("; ");
  }

  function setBusy(busy, wholeDocument = false) {
    $("restore").disabled = busy;
    $("cancel").hidden = !busy;
    $("progress").hidden = !busy;
    $("view").classList.toggle("stale", busy && wholeDocument);
    if (busy) showProgress({ doing: "waiting" });
  }
  const STAGES = { waiting: "waiting in the queue", "choosing experts": "selecting experts", lengths: "estimating gap lengths", inferring: "inferring expert weights", decoding: "restoring", rescoring: "rescoring", alternatives: "computing alternatives", correcting: "correcting" };
  /** Show the stage with its progress, or the position in the queue, and the number of choices that are not sent yet. */
  function showProgress({ doing, share = 0, place }) {
    const percent = Math.round(100 * share), bar = $("progress"), waiting = pending().length - state.sentChoices;
    state.progress = { doing, share, place };
    bar.firstElementChild.style.width = `${percent}%`;
    bar.lastElementChild.textContent = `${STAGES[doing] ?? doing}${doing !== "waiting" ? ` ${percent} %` : place ? `: position ${place}` : ""}${waiting ? `; ${waiting} more ${waiting === 1 ? "choice is" : "choices are"} waiting` : ""}`;
    bar.setAttribute("aria-valuenow", percent);
  }

  /** Yield the values of a response of JSON lines. */
  async function* jsonLines(response) {
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

  /** Names of the selected experts; null if all are selected, and the server selects those for the document. */
  function selectedExperts() {
    const boxes = [...$("experts").querySelectorAll("input")], selected = boxes.filter((box) => box.checked);
    return selected.length === boxes.length ? null : selected.map((box) => box.value);
  }

  /** Restore the whole document, with the choices. */
  async function restore() {
    await state.opening;
    if (state.running) return;
    const bytes = currentBytes(), text = $("document").value;
    if (!bytes.length) { showMessage("there is no document yet: paste text, open a file, or load the example"); $("document").focus(); return; }
    if (selectedExperts()?.length === 0) { showMessage("no expert is selected: select at least one in the settings"); return; }
    if (markOutdated()) clearResult();
    const { file, name, encoding } = state;
    const content = file ? { data: toBase64(file.data), encoding } : state.bytes ? { data: toBase64(bytes), encoding: UTF8 } : { text: decoder.decode(bytes) };
    if (await run({ content, text, file, name, encoding }, null)) await restoreChoices();
    else clearResult();
  }

  /** Request a restoration with the current choices, and show it; with `previous`, only the surroundings of new choices. */
  async function run(source, previous) {
    showMessage("");
    const choices = new Map(state.choices), { text: _, ...record } = previous ?? {};
    Object.assign(state, { running: new AbortController(), sentChoices: pending().length });
    setBusy(true, !previous);
    const options = settings(), selected = options.lost.startsWith(CHANNEL) ? options.lost.slice(CHANNEL.length) : null;
    const channel = selected === "auto" && previous ? "mask" : selected ?? (source.file?.format ? "ocr" : null);
    const request = {
      ...source.content, ...options, ...(channel && { lost: "auto", channel, alternatives: 0 }),
      references: options.memory ? state.references.map(({ name, text }) => ({ name, text })) : [],
      experts: selectedExperts(), choices: [...choices.values()], previous: previous && record,
    };
    try {
      const response = await post("/v1/restore", request, { signal: state.running.signal, headers: { Accept: "application/x-ndjson" } });
      for await (const line of jsonLines(response)) {
        if (line.error) throw new Error(errorText(line));
        if (line.result) {
          const { data: restored, ...result } = line.result;
          state.applied = choices;
          show({ ...result, encoding: source.encoding }, { ...source, restored });
        } else showProgress(line);
      }
      return true;
    } catch (error) {
      if (error.name !== "AbortError") showMessage(error.message);
      return false;
    } finally {
      state.running = null;
      setBusy(false);
    }
  }

  /** Show a result; the selected span, the scroll position and the focus are kept. */
  function show(result, source) {
    const first = !state.view, scroll = window.scrollY, position = state.view?.place(), focused = $("view").contains(document.activeElement);
    state.view?.destroy();
    Object.assign(state, { result, source });
    $("empty").hidden = true;
    $("downloads").hidden = false;
    $("done").textContent = result.correction ? "Corrected" : "Restored";
    $("save-text").textContent = `Download ${source.file?.format ?? "text"}`;
    markOutdated();
    state.view = ConservatorView.draw($("view"), result, result.correction ? {} : { choose, undo });
    state.view.pend(pending());
    if (position) {
      window.scrollTo(0, scroll);
      if (focused) $("view").querySelector(".document").focus({ preventScroll: true });
      state.view.resume(position);
    }
    if (!result.correction && !result.summary.lost && !result.summary.fixed) showMessage("there is nothing to restore: the document has no marks", "hint");
    else if (first && narrow()) $("result").scrollIntoView({ block: "start" });
  }

  /** The choices that the shown result does not contain yet; the text is null if a choice was undone. */
  function pending() {
    const { choices, applied } = state;
    return [
      ...[...choices].filter(([key, choice]) => applied.get(key)?.text !== choice.text).map(([, choice]) => choice),
      ...[...applied].filter(([key]) => !choices.has(key)).map(([, { origin }]) => ({ origin, text: null })),
    ];
  }
  /** Change the choices, and restore their surroundings; choices made during a restoration are sent together after it. */
  function changeChoices(choices) {
    if (markOutdated()) { showMessage("the document has changed since this result: restore it again first"); return; }
    state.history.push(state.choices);
    setChoices(choices);
  }
  function setChoices(choices) {
    state.choices = choices;
    $("undo").hidden = !state.history.length;
    show(state.result, state.source);
    if (state.running) showProgress(state.progress);
    restoreChoices();
  }
  async function restoreChoices() {
    while (!state.running && state.result && pending().length) {
      if (await run(state.source, state.result)) continue;
      if (!state.result) return;
      Object.assign(state, { choices: new Map(state.applied), history: [] }); // back to the choices of the result
      $("undo").hidden = true;
      show(state.result, state.source);
      return;
    }
  }
  const without = (origin) => new Map([...state.choices].filter(([, choice]) => choice.origin[1] <= origin[0] || choice.origin[0] >= origin[1]));
  const choose = ({ origin }, { text }) => changeChoices(without(origin).set(String(origin), { origin, text }));
  const undo = ({ origin }) => changeChoices(without(origin));

  /** Add reference files, if they are text, and neither too many nor too large. */
  async function addReferences(files) {
    showMessage("");
    const { bytes: maxBytes, files: maxFiles, name: maxNameLength } = $("reference-panel").dataset, references = [...state.references];
    const limit = `the limit is ${(+maxBytes).toLocaleString("en")} bytes for all reference files together`;
    for (const file of [...files]) {
      if (file.size > +maxBytes) { showMessage(`${file.name} is too large: it has ${file.size.toLocaleString("en")} bytes, ${limit}`); return; }
      const name = file.name.slice(-maxNameLength);
      let bytes, text;
      try { ({ bytes } = await readFile(file)); } catch (error) { showMessage(error.message); return; }
      try { text = strict.decode(bytes); } catch { showMessage(`${file.name} is damaged: it is not valid UTF-8; reference files must be undamaged`); return; }
      const index = references.findIndex((reference) => reference.name === name);
      if (index >= 0) references.splice(index, 1); // the new version replaces the old one
      references.push({ name, text, size: bytes.length });
    }
    const size = references.reduce((sum, reference) => sum + reference.size, 0);
    if (references.length > +maxFiles) { showMessage(`too many reference files: ${references.length}, the limit is ${maxFiles}`); return; }
    if (size > +maxBytes) { showMessage(`the reference files are too large: they have ${size.toLocaleString("en")} bytes, ${limit}`); return; }
    state.references = references;
    listReferences();
  }
  function listReferences() {
    const empty = !state.references.length;
    $("references").replaceChildren(...state.references.map((reference) => {
      const item = document.createElement("li"), name = document.createElement("span"), size = document.createElement("span"), remove = document.createElement("button");
      Object.assign(name, { className: "name", textContent: reference.name, title: reference.name });
      Object.assign(size, { className: "size", textContent: `${reference.size.toLocaleString("en")} bytes` });
      Object.assign(remove, { type: "button", textContent: "×", ariaLabel: `Remove ${reference.name}` });
      remove.addEventListener("click", () => { state.references = state.references.filter((other) => other !== reference); listReferences(); });
      item.append(name, size, remove);
      return item;
    }));
    $("references").hidden = $("remove-references").hidden = empty;
    $("reference-state").textContent = empty ? emptyHint : $("memory").checked ? "matching text is copied from these files" : "not used: copying is switched off in the settings";
  }
  const emptyHint = $("reference-state").textContent;

  function save(content, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  /** Return the text of a file in UTF-8, its encoding, its OCR format and its bytes; the server refuses other files. */
  async function readFile(file, data = null, encoding = null) {
    const maxBytes = +$("reference-panel").dataset.bytes, name = file.name.slice(-$("reference-panel").dataset.name);
    if (!data && file.size > maxBytes) throw new Error(`${file.name} is too large: it has ${file.size.toLocaleString("en")} bytes, the limit is ${maxBytes.toLocaleString("en")} bytes`);
    const original = data ?? new Uint8Array(await file.arrayBuffer());
    const response = await (await post("/v1/read", { data: toBase64(original), name, encoding, mark: $("mark").value || "\ufffd", gap: $("gap").value || null })).json();
    return { ...response, bytes: fromBase64(response.data), original };
  }
  const downloadName = (suffix) => state.source.name.replace(/(\.[^.]*)?$/, (old) => `.restored${suffix || old}`);

  $("form").addEventListener("submit", (event) => { event.preventDefault(); restore(); });
  $("cancel").addEventListener("click", () => state.running?.abort());
  $("undo").addEventListener("click", () => { if (markOutdated()) showMessage("the document has changed since this result: restore it again first"); else setChoices(state.history.pop()); });
  $("document").addEventListener("input", onEdit);
  $("document").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("form").requestSubmit(); } });
  for (const id of ["mark", "gap"]) $(id).addEventListener("input", describe);
  for (const id of ["rate", "min-confidence", "min-gap-confidence"]) $(id).addEventListener("input", () => { $(`${id}-value`).value = $(id).value; });
  $("open").addEventListener("click", () => $("file").click());
  /** Open a file. A restoration that is started meanwhile waits for it. */
  function openFile(file, data = null) {
    if (file && !state.running) state.opening = readDocument(file, data);
    return state.opening;
  }
  async function readDocument(file, data) {
    showMessage("");
    try {
      const { bytes, encoding, format, original } = await readFile(file, data, $("encoding").value.trim() || null);
      setDocument(bytes, file.name, encoding, { name: file.name, data: original, format });
    } catch (error) { showMessage(error.message); }
  }
  $("file").addEventListener("change", async () => { await openFile($("file").files[0]); $("file").value = ""; });
  $("encoding").addEventListener("change", () => { if (state.file) openFile(state.file, state.file.data); });
  $("add").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", async () => { await addReferences($("files").files); $("files").value = ""; });
  $("remove-references").addEventListener("click", () => { state.references = []; listReferences(); });
  $("memory").addEventListener("change", listReferences);
  for (const [area, onDrop] of [[$("document"), (files) => openFile(files[0])], [$("reference-panel"), addReferences]]) {
    area.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); area.classList.add("dropping"); } });
    area.addEventListener("dragleave", () => area.classList.remove("dropping"));
    area.addEventListener("drop", (event) => { area.classList.remove("dropping"); if (event.dataTransfer.files.length) { event.preventDefault(); onDrop(event.dataTransfer.files); } });
  }
  $("sample").addEventListener("click", async () => { showMessage(""); if (state.running) return; setDocument(new Uint8Array(await (await fetch("/static/sample.md")).arrayBuffer()), "field_station.md", UTF8); });
  $("damage").addEventListener("click", async () => {
    showMessage("");
    const bytes = currentBytes();
    if (state.running) return;
    if (!bytes.length) { showMessage("there is no document to damage yet: paste text, open a file, or load the example"); return; }
    try {
      const response = await (await post("/v1/damage", { data: toBase64(bytes), rate: +$("rate").value / 100, burst: +$("burst").value, seed: +$("seed").value })).json();
      $("mark").value = "\ufffd";
      setDocument(fromBase64(response.data), textName(), state.encoding);
    } catch (error) { showMessage(error.message); }
  });
  $("save-text").addEventListener("click", async () => {
    const { text, encoding } = state.result, { file, restored } = state.source;
    try {
      const data = fromBase64(file ? restored : (await (await post("/v1/write", { text, encoding })).json()).data);
      const isUtf8 = /[^\0-\x7f\ufffd]/.test(text) && decoder.decode(data) === text;
      if (encoding !== UTF8 && isUtf8) showMessage(`the text was saved as UTF-8, because ${encoding} lacks a restored character`, "hint");
      save(data, downloadName(""), "application/octet-stream");
    } catch (error) { showMessage(error.message); }
  });
  $("save-json").addEventListener("click", () => save(JSON.stringify(state.result), downloadName(".json"), "application/json"));
  $("save-report").addEventListener("click", async () => {
    const { text, ...record } = state.result;
    try { save(await (await post("/v1/report", { title: state.source.name, record })).blob(), downloadName(".html"), "text/html"); } catch (error) { showMessage(error.message); }
  });

  fetch("/v1/experts").then((response) => response.json()).then((experts) => {
    for (const expert of experts) {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: expert.name, checked: true });
      const label = document.createElement("label");
      label.append(box, expert.name);
      $("experts").append(label);
    }
  }).catch(() => showMessage("the server does not respond"));
})();
