/* Draws the record of a restoration. The document is only ever inserted as text, never as markup. */
"use strict";

const ConservatorView = (() => {
  const BLOCK = 6000; // characters of the document that are laid out together
  const MAX_LINE_PIECES = 2000; // pieces of one line that stay in one block
  const MAX_SOURCES = 4; // sources of a piece that its details list
  const INITIAL_CORRECTIONS = 100; // corrections that are listed at first
  const MIN_LINE_HEIGHT = 22; // pixels: minimum height of a line of a page that is scaled to fit
  const SVG = "http://www.w3.org/2000/svg";
  const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(share > 0.995 && share < 1 ? 2 : share < 0.1 ? 1 : 0)} %`);
  const formatProbability = (probability) => (probability > 0.9995 ? "> 99.9 %" : percent(probability)); // a correction is never certain
  const lowest = (values) => values.reduce((low, value) => Math.min(low, value), 1);
  const number = (value) => value.toLocaleString("en");
  const noun = (value, word) => (value === 1 ? word : `${word}s`);
  const counted = (value, word) => `${number(value)} ${noun(value, word)}`;
  // The experts cycle through eight colours; the memory has a separate one.
  const hue = (record, expert) => (expert === record.memory ? "var(--memory)" : `var(--e${expert % 8})`);
  const hasMemory = (record) => record.memory !== null;
  const units = (record) => `${record.unit}s`;
  const isCorrection = (record) => record.correction !== undefined; // of visible text; otherwise lost text was restored
  const certainty = (piece) => (piece.observed === undefined ? lowest(piece.confidence) : piece.probability); // a deletion has no characters
  const level = (confidence) => (confidence >= 0.9 ? "good" : confidence >= 0.5 ? "fair" : "poor");
  const MAX_CONTEXT = 24; // characters of a word that are shown on either side of an alternative
  const WORD = /[\p{L}\p{N}\p{M}_]/u;
  const shown = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll("\r", "␍").replace(/^ +| +$/g, (blank) => "␣".repeat(blank.length));

  function make(tag, options = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") node.className = value;
      else if (key === "color") node.style.setProperty("--color", value);
      else if (key in node && key !== "list") node[key] = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  const card = (name, value, note) => make("dl", { class: "card" }, make("dt", {}, name), make("dd", {}, value, make("small", {}, note)));

  /** Why something is unfilled. */
  function reason({ out_of_time: stage, notices }) {
    const hasNotice = stage === "decoding" || notices.some(({ kind }) => kind === "mostly_lost" || kind === "unknown_characters");
    return hasNotice ? "see the notices below, or confidence too low" : "confidence too low";
  }

  /** The counts of a correction as cards. */
  function correctionCards({ correction: { channels, characters, changed, rate }, summary: { lost, confident } }) {
    return [
      card("Changed", number(changed), `${noun(changed, "character")} in ${counted(lost, "correction")}, ${percent(characters ? changed / characters : 0)} of ${number(characters)}`),
      card("Confident", number(confident), `of ${counted(lost, "correction")}, with a probability of at least 90 %`),
      card("Channel", channels.join(", "), "kind of errors"),
      ...(lost && typeof rate === "number" ? [card("Error rate", `${rate.toPrecision(2)} ×`, "relative to the channel")] : []),
    ];
  }

  /** The counts of a restoration as cards. */
  function lossCards(record) {
    const { summary } = record, lostShare = summary.bytes ? summary.lost / summary.bytes : 0;
    const used = record.references.filter((reference) => reference.provenance);
    const fromReferences = used.reduce((sum, reference) => sum + reference.provenance, 0);
    const origins = [[summary.provenance - fromReferences, "this document"], [fromReferences, used.length === 1 ? used[0].name : counted(used.length, "reference")]]
      .filter(([count]) => count).map(([count, name]) => `${number(count)} from ${name}`).join(", ");
    const lostNote = record.unit === "character"
      ? `${record.lost === "any" ? "" : "non-ASCII "}${noun(summary.lost, "character")} in ${counted(summary.spans, "span")}${record.lost_by ? `: ${record.lost_by} was read as UTF-8` : ""}`
      : `${noun(summary.lost, "byte")} in ${counted(summary.spans, "span")}, ${percent(lostShare)} of ${number(summary.bytes)}`;
    return [
      card("Lost", number(summary.lost), lostNote),
      card("Restored", number(summary.restored), `${number(summary.confident)} of them with a confidence of at least 90 %${summary.fixed ? `; ${counted(summary.fixed, "span")} fixed by the user` : ""}`),
      ...(hasMemory(record) ? [card("Copied", number(summary.provenance), origins || "nothing")] : []),
      card("Unfilled", number(summary.unfilled), summary.unfilled ? reason(record) : "nothing"),
    ];
  }

  /** The summary as cards. */
  function cards(record) {
    const { summary, cost } = record, isOcr = isCorrection(record);
    return make(
      "section", { class: "cards", ariaLabel: "Summary" },
      ...(isOcr ? correctionCards : lossCards)(record),
      card("Expected correct", percent(summary.expected_accuracy), isOcr ? "of the corrections: their mean probability" : `of the restored ${units(record)}: their mean confidence`),
      card("Cost", `${cost.seconds.toFixed(1)} s`, cost.evaluations ? counted(cost.evaluations, "network evaluation") : "no network evaluations"),
    );
  }

  /** The notices of the record, one paragraph each. */
  function notices(record) {
    const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
    return record.notices.map(({ kind, message }) => make("p", { class: `warning ${kind}`, role: "note" }, sentence(message)));
  }

  /** A note if local weights gained little. */
  function gainNote(record) {
    return record.global_weight_suffices ? [make("p", { class: "remark" }, "Local weights gained little in this document: a global weight would restore about as much.")] : [];
  }

  /** The weights of the experts along the document, normalised without the memory, which has a weight only at lost text. */
  function expertWeights(record) {
    const memory = record.field.weights[record.memory] ?? [];
    return record.field.weights.map((column, expert) => (expert === record.memory ? [] : column.map((value, bin) => (value === null ? null : value / Math.max(1e-9, 1 - (memory[bin] ?? 0))))));
  }

  /** The number of corrections in each bin of the curves; a deletion has no position, and is not in `lost_fraction`. */
  function correctionCounts({ field: { edges }, pieces }) {
    const counts = edges.slice(1).map(() => 0), last = counts.length - 1;
    for (const { origin, at } of pieces) if (origin) counts[Math.min(last, Math.floor(counts.length * at[0] / edges[last + 1]))] += 1;
    return counts;
  }

  /** The field as a stacked area over the document; below it, the weight of the memory at lost text, and the damage. A click calls `go`. */
  function chart(record, go) {
    const { edges, provenance } = record.field, weights = expertWeights(record);
    const flat = isCorrection(record); // a correction has the same weights everywhere
    const lost = flat ? correctionCounts(record) : record.field.lost_fraction;
    const floor = hasMemory(record) ? 72 : 92; // of the stacked area
    const length = edges[edges.length - 1] || 1;
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, value] of [["viewBox", "0 0 1000 120"], ["preserveAspectRatio", "none"], ["class", flat ? "chart flat" : hasMemory(record) ? "chart tall" : "chart"], ["role", "img"], ["aria-label", flat ? "Where text was corrected" : `Weight of each expert along the document, and where ${units(record)} were lost`]]) svg.setAttribute(key, value);
    const x = (position) => (1000 * position / length).toFixed(2);
    const shape = (name, points, style) => {
      const node = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(points)) node.setAttribute(key, value);
      Object.assign(node.style, style || {});
      svg.append(node);
      return node;
    };
    const base = (flat ? [] : record.field.weights[0]).map((value) => (value === null ? null : 0));
    if (!flat) weights.forEach((column, expert) => {
      let path = "", top = [], bottom = [];
      const flush = () => {
        if (top.length) path += `M${top.join("L")}L${bottom.reverse().join("L")}Z`;
        top = []; bottom = [];
      };
      column.forEach((value, bin) => {
        if (value === null) return flush();
        const low = base[bin], high = low + value;
        for (const position of [edges[bin], edges[bin + 1]]) {
          top.push(`${x(position)} ${(floor - (floor - 2) * high).toFixed(2)}`);
          bottom.push(`${x(position)} ${(floor - (floor - 2) * low).toFixed(2)}`);
        }
        base[bin] = high;
      });
      flush();
      if (path) shape("path", { d: path, "shape-rendering": "geometricPrecision" }, { fill: hue(record, expert), opacity: "0.82" });
    });
    const ticks = (fractions, foot, height) => fractions.map((fraction, bin) => (fraction > 0 ? `M${x(edges[bin])} ${foot}V${(foot - height * fraction).toFixed(2)}H${x(edges[bin + 1])}V${foot}Z` : "")).join("");
    if (hasMemory(record)) {
      shape("rect", { x: 0, y: 76, width: 1000, height: 24, class: "lane" });
      shape("path", { d: ticks(provenance, 100, 24), class: "copied" });
    }
    const highest = lost.reduce((high, fraction) => Math.max(high, fraction), 1e-9), height = flat ? 116 : hasMemory(record) ? 16 : 22;
    shape("path", { d: ticks(lost.map((fraction) => fraction && Math.max(0.25, fraction / highest)), 120, height), class: "lost" });
    const cursor = shape("line", { class: "cursor", x1: -5, x2: -5, y1: 0, y2: 120 });
    const fractionAt = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    };
    svg.addEventListener("pointermove", (event) => { const at = 1000 * fractionAt(event); cursor.setAttribute("x1", at); cursor.setAttribute("x2", at); });
    svg.addEventListener("pointerleave", () => { cursor.setAttribute("x1", -5); cursor.setAttribute("x2", -5); });
    svg.addEventListener("click", (event) => go(fractionAt(event) * length));
    return make("div", { class: "chart-box" }, svg);
  }

  function legend(record) {
    const list = make("ul", { class: "legend" });
    const columns = isCorrection(record) ? record.summary.weights.map((weight) => [weight]) : expertWeights(record), { lost_fraction: lost, provenance } = record.field;
    record.experts.forEach((name, expert) => {
      const isMemory = expert === record.memory;
      const column = (isMemory ? provenance : columns[expert]).map((value, bin) => [value, isMemory ? lost[bin] : 1]).filter(([value]) => value !== null);
      const total = column.reduce((sum, [, weight]) => sum + weight, 0);
      const mean = column.reduce((sum, [value, weight]) => sum + value * weight, 0) / (total || 1);
      list.append(make("li", {}, make("span", { class: "swatch", color: hue(record, expert) }), total ? `${name} ${percent(mean)}${isMemory ? ` at lost ${units(record)}` : ""}` : name));
    });
    return list;
  }

  /** The characters of a restored piece, in runs of the same confidence level and provenance: { text, kind }. */
  function runs(record, piece) {
    if (piece.fixed) return [{ text: piece.text, kind: "yours" }];
    if (piece.unfilled) return [{ text: piece.text, kind: "unfilled" }];
    const list = [], isMostlyMemory = piece.weights[record.memory] >= 0.5;
    [...piece.guess].forEach((character, index) => {
      const kind = level(piece.confidence[index]) + (isMostlyMemory && piece.sources[index] ? " copied" : ""), last = list[list.length - 1];
      if (last && last.kind === kind) last.text += character;
      else list.push({ text: character, kind });
    });
    return list;
  }

  /** The provenance of the characters of a piece, in runs with the same source: { text, name, line }. */
  function sources(record, piece) {
    const list = [];
    [...piece.guess].forEach((character, index) => {
      const [reference, line] = piece.sources[index] ?? [null, null], last = list[list.length - 1];
      const name = reference === null ? null : record.references[reference].name;
      if (last && last.name === name && last.line === line) last.text += character;
      else list.push({ text: character, name, line });
    });
    return list.filter((source) => source.line !== null);
  }

  const pictureOf = (record, index) => (record.pictures ?? []).find(({ boxes }) => boxes[index]);

  /** The picture of the line of some corrections, with their words highlighted; an empty list if there is none. */
  function picture(record, indices) {
    const line = pictureOf(record, indices[0]);
    if (!line) return [];
    const boxes = new Set(indices.map((index) => JSON.stringify(line.boxes[index]))); // corrections may be in one word
    const highlights = [...boxes].map((box) => {
      const [left, top, right, bottom] = JSON.parse(box), highlight = make("i", {});
      for (const [side, fraction] of [["left", left], ["top", top], ["width", right - left], ["height", bottom - top]]) highlight.style[side] = `${100 * fraction}%`;
      return highlight;
    });
    const image = make("img", { alt: "The line of the page", src: line.image }), box = make("div", { class: "picture" }, make("div", {}, image, ...highlights));
    const centre = () => {
      // A line that is a little too wide is scaled down; if it would become illegible, it scrolls instead.
      const fitting = box.parentElement && image.naturalWidth ? (box.parentElement.clientWidth - 2) * image.naturalHeight / image.naturalWidth : 0;
      if (fitting >= MIN_LINE_HEIGHT && fitting < image.offsetHeight) image.style.height = `${fitting}px`;
      box.scrollLeft = highlights[0].offsetLeft + highlights[0].offsetWidth / 2 - box.clientWidth / 2;
    };
    image.addEventListener("load", centre);
    requestAnimationFrame(centre);
    return [box];
  }

  /** The word of a correction with its punctuation, before and after the correction: [old, new]. */
  function words(record, piece) {
    return [["s", (other) => other.observed ?? other.text], ["b", (other) => other.text]].map(([tag, read]) => {
      const [before, after] = wordAround(record.pieces, piece, read, /\S/), text = read(piece);
      if (!before && !text && !after) return make("i", {}, "nothing");
      return make("code", { class: "word" }, before, ...(text ? [make(tag, {}, shown(text))] : []), after);
    });
  }

  /** All corrections as a table: line, observed and corrected text, probability, log-odds; `go(index)` shows a piece. */
  function listing(record, corrections, go) {
    const order = make("select", { ariaLabel: "Order of the corrections" }, make("option", { value: "" }, "in document order"), make("option", { value: "probability" }, "lowest probability first"));
    const body = make("table", {}), more = make("button", { type: "button" });
    const title = (name, note) => make("th", { scope: "col", title: note }, name);
    let shownCount = INITIAL_CORRECTIONS;
    function row(index) {
      const piece = corrections[index], link = make("button", { type: "button", class: "link", title: "Show this correction in the document" }, number(piece.line));
      link.addEventListener("click", () => go(index));
      const cells = [link, ...words(record, piece), formatProbability(piece.probability), piece.log_odds?.toFixed(1) ?? "∞"];
      return make("tr", {}, ...cells.map((cell, at) => make("td", { class: at > 2 || !at ? "value" : "" }, cell)));
    }
    /** The rows of corrections; those of one line are grouped below its picture. */
    function rows(indices) {
      const groups = [];
      for (const index of indices) {
        const last = groups[groups.length - 1], line = pictureOf(record, index);
        if (line && last?.line === line) last.indices.push(index);
        else groups.push({ line, indices: [index] });
      }
      return groups.flatMap((group) => [...picture(record, group.indices).map((line) => make("tr", { class: "line" }, make("td", { colSpan: 5 }, line))), ...group.indices.map(row)]);
    }
    function update() {
      const indices = [...corrections.keys()];
      if (order.value) indices.sort((first, second) => corrections[first].probability - corrections[second].probability);
      body.replaceChildren(
        make("thead", {}, make("tr", {}, title("Line", "Line of the document"), title("Observed", "Text before the correction"), title("Corrected", "Text after the correction"), title("Probability", "Probability that the correction is correct"), title("Log-odds", "Evidence for the correction over the observed text, in nats"))),
        make("tbody", {}, ...rows(indices.slice(0, shownCount))),
      );
      more.hidden = indices.length <= shownCount;
      more.textContent = `Show all ${number(indices.length)}`;
    }
    order.addEventListener("change", update);
    more.addEventListener("click", () => { shownCount = Infinity; update(); });
    update();
    const pictured = new Set((record.pictures ?? []).flatMap(({ boxes }) => Object.keys(boxes))).size, lacking = corrections.length - pictured;
    const note = pictured && lacking ? [make("p", { class: "remark" }, `${counted(lacking, "correction")} ${lacking === 1 ? "has" : "have"} no picture: a report contains a limited number, for the least probable corrections.`)] : [];
    return make("section", { class: "panel" }, make("header", {}, make("h2", {}, "Corrections"), make("div", { class: "tools" }, order)), make("div", { class: "corrections", tabIndex: 0, role: "group", ariaLabel: "All corrections" }, body, more), ...note);
  }

  const isSame = (range, other) => range[0] === other[0] && range[1] === other[1];

  /** The parts of words on either side of a gap, which may consist of several pieces: [left, right]. */
  function wordAround(pieces, piece, read = (other) => other.text, inWord = WORD) {
    const isSameGap = (other) => other?.origin && isSame(other.origin, piece.origin), wordPart = (text, by) => {
      let part = "";
      const letters = [...text];
      if (by < 0) letters.reverse();
      for (const letter of letters) {
        if (!inWord.test(letter)) return [part, true];
        part = by < 0 ? letter + part : part + letter;
      }
      return [part, false];
    };
    const walk = (index, by) => {
      let text = "";
      while (isSameGap(pieces[index])) index += by;
      for (; pieces[index] && text.length < MAX_CONTEXT; index += by) {
        const [more, ended] = wordPart(by < 0 ? read(pieces[index]).slice(-2 * MAX_CONTEXT) : read(pieces[index]).slice(0, 2 * MAX_CONTEXT), by);
        text = by < 0 ? more + text : text + more;
        if (ended) break;
      }
      const letters = [...text];
      return letters.length <= MAX_CONTEXT ? text : by < 0 ? `…${letters.slice(-MAX_CONTEXT).join("")}` : `${letters.slice(0, MAX_CONTEXT).join("")}…`;
    };
    const index = pieces.indexOf(piece);
    return [walk(index, -1), walk(index, 1)];
  }

  /**
   * Draw `record` into `root`. `choose(piece, { text })` is called when the user fixes the text of a gap, and
   * `undo(piece)` when they revert that. Returns { select(index), pend(choices), place(), resume(place), destroy() }.
   */
  function draw(root, record, { choose = null, undo = null } = {}) {
    const restored = record.pieces.filter((piece) => piece.origin);
    const corrected = isCorrection(record), itemName = corrected ? "correction" : "restored span";
    const sheet = make("div", { class: "document", tabIndex: 0, role: "group", ariaLabel: `The ${corrected ? "corrected" : "restored"} document. The arrow keys select the previous or next ${itemName}, Enter shows its details.` });
    const blocks = [];
    let current = null, drawn = 0, count = 0, index = 0;
    const addBlock = () => {
      blocks.push({ pieces: [], node: make("div", { class: "block" }) });
      return blocks[blocks.length - 1];
    };
    for (const piece of record.pieces) {
      if (!current || count > BLOCK) {
        current = addBlock();
        count = 0;
      }
      // A long visible piece is split at a line end, so that blocks stay small.
      let text = piece.text;
      while (!piece.origin && count + text.length > BLOCK) {
        const cut = text.indexOf("\n", Math.max(0, BLOCK - count)) + 1;
        if (!cut || cut === text.length) break;
        current.pieces.push({ ...piece, text: text.slice(0, cut) });
        text = text.slice(cut);
        current = addBlock();
        count = 0;
      }
      current.pieces.push(piece.origin ? { ...piece, index: index++ } : { ...piece, text });
      count += text.length;
    }
    joinLines(blocks);

    /** A correction, preceded by the observed text, struck out, which is not part of a text selection. */
    function drawCorrection(piece, parent) {
      const nodes = [];
      if (piece.observed) nodes.push(make("s", { class: "was" }, shown(piece.observed)));
      if (piece.text) nodes.push(make("span", { class: `r ${level(piece.probability)}` }, piece.text));
      for (const node of nodes) node.dataset.i = piece.index;
      parent.append(...nodes);
    }
    function drawBlock(block) {
      for (const piece of block.pieces) {
        if (corrected && piece.origin) { drawCorrection(piece, block.node); continue; }
        const parent = piece.expert === null || corrected ? block.node : make("span", { class: "of", color: hue(record, piece.expert) });
        if (!piece.origin) parent.append(piece.text);
        else
          for (const run of runs(record, piece)) {
            const node = make("span", { class: `r ${run.kind}` }, run.text);
            node.dataset.i = piece.index;
            if (/^[\r\n]+$/.test(run.text)) node.classList.add("nl");
            parent.append(node);
          }
        if (parent !== block.node) block.node.append(parent);
      }
    }
    function drawBlocks(milliseconds) {
      const stop = performance.now() + milliseconds;
      while (drawn < blocks.length && performance.now() < stop) drawBlock(blocks[drawn++]);
    }
    const drawAll = () => drawBlocks(Infinity);
    sheet.append(...blocks.map((block) => block.node));
    drawBlocks(60);
    const drawRest = () => { if (drawn < blocks.length) { drawBlocks(30); setTimeout(drawRest, 8); } };
    setTimeout(drawRest, 30);
    window.addEventListener("beforeprint", drawAll);

    // The details of a restored span, in a box beside it.
    const tip = make("div", { class: "tip", hidden: true, role: "dialog", ariaLabel: "Details" });
    let pinned = false, at = -1;
    const nodesOf = (index) => sheet.querySelectorAll(`[data-i="${index}"]`);
    function bars(rows) {
      const list = make("div", { class: "bars" });
      for (const row of rows) {
        const bar = make("div", { class: "bar" }, make("i", {}));
        bar.firstChild.style.width = `${Math.max(1, 100 * row.value)}%`;
        if (row.color) bar.firstChild.style.setProperty("--color", row.color);
        const [left, right] = row.around ?? ["", ""], within = row.around ? [left, make("b", {}, shown(row.name)), right] : [shown(row.name)];
        const kind = `name${row.around ? " word" : ""}${row.taken ? " taken" : ""}`;
        const name = row.pick ? make("button", { class: kind, type: "button", title: row.taken ? "Your choice" : "Use this text" }, ...within) : make("span", { class: kind, title: `${left}${row.name}${right}` }, ...within);
        if (row.pick) name.addEventListener("click", row.pick);
        list.append(name, bar, make("span", { class: "value" }, percent(row.value)));
      }
      return list;
    }
    /** The provenance of a piece, as a list; a line of the document is a link once the box is pinned. */
    function provenance(piece) {
      const runs = sources(record, piece), list = make("ul", { class: "sources" });
      for (const source of runs.slice(0, MAX_SOURCES)) {
        const where = `line ${number(source.line)} of ${source.name === null ? "this document" : source.name}`;
        const link = source.name === null && pinned ? make("button", { class: "link", type: "button", title: "Show this line" }, where) : where;
        if (link !== where) link.addEventListener("click", () => showLine(source.line));
        list.append(make("li", {}, ...(piece.confidence.length > 1 ? [make("code", {}, shown(source.text)), " "] : []), "copied from ", link));
      }
      if (runs.length > MAX_SOURCES) list.append(make("li", {}, `and ${counted(runs.length - MAX_SOURCES, "more source")}`));
      return runs.length ? [list] : [];
    }
    /** Scroll to a line of the damaged document, and select it. Restored line ends do not count. */
    function showLine(line) {
      drawAll();
      hide(true);
      const walker = document.createTreeWalker(sheet, NodeFilter.SHOW_TEXT), range = document.createRange();
      let lineEnds = 0, hasStart = false;
      range.selectNodeContents(sheet);
      while (lineEnds < line && walker.nextNode()) {
        const node = walker.currentNode;
        if (!hasStart && line === 1) { range.setStart(node, 0); hasStart = true; }
        if (node.parentNode.closest(".r")) continue;
        for (let offset = node.data.indexOf("\n"); offset >= 0 && lineEnds < line; offset = node.data.indexOf("\n", offset + 1)) {
          lineEnds += 1;
          if (lineEnds === line - 1) range.setStart(node, offset + 1);
          if (lineEnds === line) range.setEnd(node, offset);
        }
      }
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      (range.startContainer.parentNode.closest?.(".block") ?? sheet).scrollIntoView({ block: "nearest" }); // lays it out
      window.scrollBy(0, range.getBoundingClientRect().top - window.innerHeight / 2);
    }
    /** The details of a correction: the text before and after, its probability, and the line of the page. */
    function showCorrection(index) {
      const { probability, log_odds: logOdds } = restored[index], [was, now] = words(record, restored[index]);
      const details = `probability ${formatProbability(probability)}${logOdds === undefined ? "" : `, log-odds ${logOdds.toFixed(1)} nats`}`;
      tip.replaceChildren(make("h3", {}, was, " became ", now), make("p", {}, details), ...picture(record, [index]));
    }
    function fillTip(index) {
      const piece = restored[index];
      if (corrected) { showCorrection(index); return; }
      // A gap may consist of several pieces, some of them unfilled.
      const gap = restored.filter((other) => isSame(other.origin, piece.origin)), around = wordAround(record.pieces, piece);
      const least = percent(lowest(piece.confidence)), [left, right] = gap.length > 1 ? ["", ""] : around;
      const canChoose = choose && pinned;
      tip.replaceChildren(
        make("h3", {}, piece.fixed ? "Fixed text " : piece.unfilled ? "Unfilled; best candidate " : "Restored ", make("code", { class: "word" }, left, make("b", {}, shown(piece.guess)), right)),
        make("p", {}, piece.fixed ? "supplied by the user" : piece.confidence.length > 1 ? `confidence of each character at least ${least}` : `confidence ${least}`),
        ...provenance(piece),
      );
      if (piece.fixed && undo && pinned) {
        const back = make("button", { type: "button", class: "undo" }, "Undo");
        back.addEventListener("click", () => { hide(true); undo(piece); });
        tip.append(back);
      }
      if (piece.alternatives.length) {
        const pick = (alternative) => (canChoose ? () => { hide(true); choose(piece, alternative); } : null);
        tip.append(make("h4", {}, canChoose && !piece.fixed ? "Choose the correct text" : "Alternatives for the whole gap"));
        tip.append(bars(piece.alternatives.map((alternative) => ({ name: alternative.text, around, taken: piece.fixed && alternative.text === piece.guess, value: alternative.probability, pick: pick(alternative) }))));
      }
      if (!piece.fixed) tip.append(make("h4", {}, "Expert weights"), bars(record.experts.map((name, expert) => ({ name, value: piece.weights[expert], color: hue(record, expert) }))));
      if (canChoose) {
        // The typed text replaces the whole gap.
        const input = make("input", { type: "text", placeholder: "or type the text", value: gap.length > 1 ? gap.map((other) => other.guess).join("") : "", ariaLabel: "Text for the whole gap", spellcheck: false });
        const form = make("form", { class: "custom" }, input, make("button", { type: "submit", class: "primary" }, "Use"));
        form.addEventListener("submit", (event) => { event.preventDefault(); if (input.value) { hide(true); choose(piece, { text: input.value }); } });
        tip.append(form);
      }
    }
    function placeTip(node) {
      const box = node.getClientRects()[0], frame = root.getBoundingClientRect();
      tip.hidden = false;
      const left = Math.min(Math.max(box.left - frame.left - 20, 4), Math.max(4, frame.width - tip.offsetWidth - 4));
      const below = box.bottom + 8 + tip.offsetHeight < window.innerHeight || box.top < tip.offsetHeight + 16;
      tip.style.left = `${left}px`;
      tip.style.top = `${(below ? box.bottom + 8 : box.top - tip.offsetHeight - 8) - frame.top}px`;
    }
    function show(index, pin) {
      pinned = pin;
      tip.classList.toggle("passing", !pin); // ignores the pointer
      const nodes = nodesOf(index);
      if (!nodes.length) return;
      fillTip(index);
      placeTip(nodes[0]);
      if (pin && choose) (tip.querySelector("button.name") || tip.querySelector("input"))?.focus();
    }
    function hide(focus) {
      if (tip.hidden) return;
      tip.hidden = true;
      pinned = false;
      if (focus) sheet.focus({ preventScroll: true });
    }
    const target = (event) => event.target.closest?.("[data-i]");
    sheet.addEventListener("pointerover", (event) => { const node = target(event); if (node && !pinned && event.pointerType !== "touch") show(+node.dataset.i, false); });
    sheet.addEventListener("pointerout", (event) => { if (target(event) && !pinned) hide(); });
    sheet.addEventListener("click", (event) => { const node = target(event); if (node) { select(+node.dataset.i, false); show(+node.dataset.i, true); } });
    const hideOnOutsideClick = (event) => { if (pinned && !tip.contains(event.target) && !target(event)) hide(); };
    document.addEventListener("pointerdown", hideOnOutsideClick);
    const hideOnResize = () => hide();
    window.addEventListener("resize", hideOnResize);

    // Navigation between restored spans.
    const filter = make("select", { ariaLabel: `Which ${itemName}s to show` },
      ...[[`all ${itemName}s`, 1.01], ...[0.9, 0.5].map((limit) => [`${corrected ? "probability" : "confidence"} below ${100 * limit} %`, limit])].map(([name, value]) => make("option", { value }, name)));
    const counter = make("span", { class: "count", ariaLive: "polite" });
    const matching = () => restored.map((piece, index) => index).filter((index) => restored[index].unfilled || certainty(restored[index]) < +filter.value);
    function updateCounter() {
      const list = matching(), rank = list.indexOf(at);
      counter.textContent = rank < 0 ? counted(list.length, corrected ? "correction" : "span") : `${number(rank + 1)} of ${number(list.length)}`;
    }
    function select(index, scroll = true) {
      drawAll();
      for (const node of sheet.querySelectorAll(".now")) node.classList.remove("now");
      at = index;
      const nodes = nodesOf(index);
      for (const node of nodes) node.classList.add("now");
      if (scroll && nodes.length) nodes[0].scrollIntoView({ block: "center" });
      updateCounter();
      return nodes.length > 0;
    }
    function step(by) {
      const list = matching();
      if (!list.length) return;
      const next = by > 0 ? list.find((index) => index > at) ?? list[0] : list.findLast((index) => index < at) ?? list[list.length - 1];
      hide();
      select(next);
    }
    filter.addEventListener("change", () => {
      drawAll();
      sheet.classList.toggle("quiet", +filter.value < 1);
      const visible = new Set(matching());
      for (const node of sheet.querySelectorAll("[data-i]")) node.classList.toggle("muted", !visible.has(+node.dataset.i));
      updateCounter();
    });
    sheet.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowRight" || event.key === "n") { event.preventDefault(); step(1); }
      else if (event.key === "ArrowLeft" || event.key === "p") { event.preventDefault(); step(-1); }
      else if (event.key === "Enter" && at >= 0) { event.preventDefault(); show(at, true); }
    });
    root.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(true); });
    const before = make("button", { type: "button", title: `Previous ${itemName} (left arrow in the document)` }, "‹ Previous");
    const after = make("button", { type: "button", title: `Next ${itemName} (right arrow in the document)` }, "Next ›");
    before.addEventListener("click", () => step(-1));
    after.addEventListener("click", () => step(1));

    function go(position) {
      drawAll();
      const next = restored.findIndex((piece) => piece.at[1] >= position);
      if (next >= 0) select(next);
    }
    const kinds = make("ul", { class: "legend" },
      ...[["good", `${corrected ? "probability" : "confidence"} of at least 90 %`], ["fair", "50 to 90 %"], ["poor", "below 50 %"], ...(record.summary.unfilled ? [["unfilled", "unfilled"]] : []), ...(hasMemory(record) ? [["copied", "mostly copied"]] : []), ...(record.summary.fixed ? [["yours", "fixed text"]] : [])].map(([kind, name]) => make("li", {}, make("span", { class: `r ${kind}` }, "abc"), name)),
      ...(corrected ? [make("li", {}, make("s", { class: "was" }, "abc"), "observed text")] : []));
    const axis = (about, end) => make("div", { class: "axis" }, make("span", {}, "0"), make("span", {}, about), make("span", {}, end));
    const along = corrected
      ? restored.length ? [make("section", { class: "panel chart-panel" }, make("header", {}, make("h2", {}, "Corrections along the document"), make("span", { class: "by" }, "models:"), legend(record)), chart(record, go), axis("red: corrections", counted(record.correction.characters, "character")))] : record.notices.length ? [] : [make("p", { class: "warning", role: "note" }, "Nothing had to be changed: no correction is probable enough.")]
      : [make("section", { class: "panel chart-panel" }, make("header", {}, make("h2", {}, "Expert weights along the document"), legend(record)), chart(record, go),
        axis(`${hasMemory(record) ? `middle: weight of the memory at lost ${units(record)}; ` : ""}red: where ${units(record)} were lost`, `${number(record.summary.bytes)} bytes`), ...gainNote(record))];
    const reveal = (index) => { if (select(index)) sheet.focus({ preventScroll: true }); };
    root.classList.add("view");
    root.style.position = "relative";
    root.replaceChildren(
      cards(record),
      ...notices(record),
      ...along,
      ...(corrected && restored.length ? [listing(record, restored, reveal)] : []),
      make("section", { class: "panel" }, make("header", {}, make("h2", {}, "Document"), kinds, make("div", { class: "tools" }, filter, before, after, counter)), sheet),
      tip,
    );
    updateCounter();
    /** Show choices that are not part of the record yet: [{ origin, text }]. */
    function pend(choices) {
      if (choices.length) drawAll();
      for (const { origin, text } of choices) {
        const nodes = restored.flatMap((piece, index) => (isSame(piece.origin, origin) ? [...nodesOf(index)] : []));
        nodes.forEach((node, index) => {
          node.className = "r pending";
          node.textContent = index ? "" : text ?? "…";
          node.title = `${text === null ? "Undone" : "Chosen"}; the text around it will be restored again`;
        });
      }
    }
    /** The selection, for another drawing of the same document. */
    function place() {
      const piece = restored[at];
      return { origin: piece?.origin ?? null, pinned: pinned && !tip.hidden, typed: tip.querySelector("input")?.value ?? "", filter: filter.selectedIndex };
    }
    function resume({ origin, pinned: isPinned, typed, filter: kind }) {
      filter.selectedIndex = kind;
      if (kind) filter.dispatchEvent(new Event("change"));
      const index = origin ? restored.findIndex((piece) => piece.origin[1] > origin[0]) : -1;
      if (index < 0) return;
      select(index, false);
      if (!isPinned || !isSame(restored[index].origin, origin)) return;
      show(index, true);
      const input = tip.querySelector("input");
      if (input && typed) { input.value = typed; input.focus({ preventScroll: true }); }
    }
    return {
      select,
      pend,
      place,
      resume,
      destroy() { window.removeEventListener("beforeprint", drawAll); window.removeEventListener("resize", hideOnResize); document.removeEventListener("pointerdown", hideOnOutsideClick); root.replaceChildren(); },
    };
  }

  /** Move the beginning of a line that continues in the next block to that block, because a block ends with a line break. */
  function joinLines(blocks) {
    for (let index = 0; index + 1 < blocks.length; index++) {
      const moved = [];
      let pieces = blocks[index].pieces;
      while (pieces.length) {
        const last = pieces[pieces.length - 1];
        const lineEnd = last.origin ? -1 : last.text.lastIndexOf("\n");
        if (lineEnd >= 0) {
          if (lineEnd + 1 < last.text.length) {
            moved.push({ ...last, text: last.text.slice(lineEnd + 1) });
            pieces[pieces.length - 1] = { ...last, text: last.text.slice(0, lineEnd + 1) };
          }
          break;
        }
        moved.push(pieces.pop());
      }
      moved.reverse();
      if (moved.length > MAX_LINE_PIECES || moved.reduce((sum, piece) => sum + piece.text.length, 0) > 2 * BLOCK) {
        blocks[index].pieces = pieces.concat(moved); // a very long line is split here
      } else blocks[index + 1].pieces = moved.concat(blocks[index + 1].pieces);
    }
  }

  /** Draw the record that the page contains. */
  function start() {
    draw(document.getElementById("view"), JSON.parse(document.getElementById("record").textContent));
  }

  return { draw, start };
})();
