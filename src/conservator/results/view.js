/* Draws the record of a restoration. Text of the document is only ever set as text, never as markup. */
"use strict";

const ConservatorView = (() => {
  const BLOCK = 6000; // characters of the document that are laid out together
  const LONG = 2000; // the largest number of pieces of one line that are kept in one block
  const SOURCES = 4; // the most places that a box names as those where a piece was remembered from
  const LISTED = 100; // changes that are listed at first
  const LOW = 22; // pixels: the least height of a line of a page that is made to fit
  const SVG = "http://www.w3.org/2000/svg";
  const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(share > 0.995 && share < 1 ? 2 : share < 0.1 ? 1 : 0)} %`);
  const chance = (probability) => (probability > 0.9995 ? "> 99.9 %" : percent(probability)); // of a change, which is never certain
  const lowest = (values) => values.reduce((low, value) => Math.min(low, value), 1);
  const number = (value) => value.toLocaleString("en");
  const noun = (value, word) => (value === 1 ? word : `${word}s`);
  const counted = (value, word) => `${number(value)} ${noun(value, word)}`;
  // The experts take their colours in turn; the memory has its own. Records of old have no memory.
  const hue = (record, expert) => (expert === record.memory ? "var(--memory)" : `var(--e${expert % 8})`);
  const recalls = (record) => Number.isInteger(record.memory);
  const units = (record) => `${record.unit ?? "byte"}s`; // what a mark stands for; bytes in records of old
  const corrects = (record) => record.correction !== undefined; // any character could be wrong; else something was lost
  const level = (sure) => (sure >= 0.9 ? "sure" : sure >= 0.5 ? "fair" : "poor");
  const AROUND = 24; // the most characters of a word that are shown on either side of a fill
  const WORD = /[\p{L}\p{N}\p{M}_]/u;
  const shown = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll("\r", "␍").replace(/^ +| +$/g, (blank) => "␣".repeat(blank.length));

  function make(tag, options = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") node.className = value;
      else if (key === "own") node.style.setProperty("--own", value);
      else if (key in node && key !== "list") node[key] = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  const card = (name, value, note) => make("dl", { class: "card" }, make("dt", {}, name), make("dd", {}, value, make("small", {}, note)));

  /** The summary of a correction as cards. */
  function correctionCards({ correction, cost }) {
    const { characters, changed, changes, sure, expected_accuracy: expected, rate } = correction;
    return make(
      "section", { class: "cards", ariaLabel: "Summary" },
      card("Changed", number(changed), `${noun(changed, "character")} in ${counted(changes, "change")}, ${percent(characters ? changed / characters : 0)} of ${number(characters)}`),
      card("At least 90 % sure", number(sure), `of ${counted(changes, "change")}`),
      card("Expected right", percent(expected), "of the changes, by their probability"),
      ...(changes ? [card("The reader erred", `${rate.toPrecision(2)} ×`, "as often as the channel says")] : []),
      card("Cost", `${cost.seconds.toFixed(1)} s`, cost.evaluations ? counted(cost.evaluations, "network evaluation") : "no network was asked"),
    );
  }

  /** Why something was left open. */
  function reason(record) {
    if (record.out_of_time === "decoding") return "not reached in time, or not sure enough";
    const undetermined = (record.notices ?? []).some(({ kind }) => kind === "mostly_lost" || kind === "lost_characters");
    return undetermined ? "not determined by the visible text, or not sure enough" : "not sure enough";
  }

  /** The summary as cards. */
  function cards(record) {
    if (corrects(record)) return correctionCards(record);
    const { summary, cost } = record, one = card;
    const share = summary.bytes ? summary.lost / summary.bytes : 0;
    const elsewhere = (record.references ?? []).filter((text) => text.remembered);
    const others = elsewhere.reduce((sum, text) => sum + text.remembered, 0);
    const among = [[summary.remembered - others, "the document"], [others, elsewhere.length === 1 ? elsewhere[0].name : counted(elsewhere.length, "reference")]]
      .filter(([bytes]) => bytes).map(([bytes, name]) => `${number(bytes)} from ${name}`).join(", ");
    return make(
      "section", { class: "cards", ariaLabel: "Summary" },
      one("Lost", number(summary.lost), record.unit === "character" ? `${noun(summary.lost, "character")} outside ASCII, in ${counted(summary.places, "place")}${record.lost_by ? `: ${record.lost_by} read as UTF-8` : ""}` : `${noun(summary.lost, "byte")} in ${counted(summary.places, "place")}, ${percent(share)} of ${number(summary.bytes)}`),
      one("Restored", number(summary.restored), `${number(summary.sure)} of them at least 90 % sure${summary.chosen ? `; ${counted(summary.chosen, "place")} chosen` : ""}`),
      ...(recalls(record) ? [one("Remembered", number(summary.remembered), among || "nothing")] : []),
      one("Left open", number(summary.left_open), summary.left_open ? reason(record) : "nothing"),
      one("Expected right", percent(summary.expected_accuracy), `of the restored ${units(record)}, by their confidence`),
      one("Cost", `${cost.seconds.toFixed(1)} s`, counted(cost.evaluations, "network evaluation")),
    );
  }

  /** The notices of the record, one paragraph each. */
  function notices(record) {
    const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
    return (record.notices ?? []).map(({ kind, message }) => make("p", { class: `warning ${kind}`, role: "note" }, sentence(message)));
  }

  /** A line of warning if time ran out. */
  function haste(record) {
    const left = record.summary.left_open, outcome = {
      decoding: ["filling in", left ? `${counted(left, record.unit ?? "byte")} ${left === 1 ? "stays" : "stay"} open` : "the last of it was chosen at once, less surely"],
      "writing again": ["writing again", `the text is that of ${corrects(record) ? "models of characters" : "networks and memory"}`],
      alternatives: ["weighing alternatives", "none are given"],
      correcting: ["correcting", "lines that were not reached stay as they were seen"],
    }[record.out_of_time];
    return outcome ? [make("p", { class: "warning", role: "note" }, `Time ran out while ${outcome[0]}: ${outcome[1]}.`)] : [];
  }

  /** A line if the regions of the document tell little. */
  function constancy(record) {
    return record.one_weight ? [make("p", { class: "constancy" }, "One weight for the whole document would have done about as well: its regions tell little.")] : [];
  }

  /** The weights of the experts along the document. The memory has one where something is lost: the others share the rest. */
  function shares(record) {
    const rest = record.field.weights[record.memory] ?? [];
    return record.field.weights.map((column, expert) => (expert === record.memory ? [] : column.map((value, bin) => (value === null ? null : value / Math.max(1e-9, 1 - (rest[bin] ?? 0))))));
  }

  /** The field as a stacked area over the document, below it the memory's weight where something is lost, and the damage; a click goes there. */
  function chart(record, go) {
    const { edges, lost, remembered } = record.field, weights = shares(record);
    const flat = corrects(record); // the weights are those of the whole document
    const floor = recalls(record) ? 72 : 92; // of the stacked area
    const length = edges[edges.length - 1] || 1;
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, value] of [["viewBox", "0 0 1000 120"], ["preserveAspectRatio", "none"], ["class", flat ? "chart flat" : recalls(record) ? "chart tall" : "chart"], ["role", "img"], ["aria-label", flat ? "Where characters were changed" : `How much each expert was trusted along the document, and where ${units(record)} were lost`]]) svg.setAttribute(key, value);
    const x = (place) => (1000 * place / length).toFixed(2);
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
        for (const place of [edges[bin], edges[bin + 1]]) {
          top.push(`${x(place)} ${(floor - (floor - 2) * high).toFixed(2)}`);
          bottom.push(`${x(place)} ${(floor - (floor - 2) * low).toFixed(2)}`);
        }
        base[bin] = high;
      });
      flush();
      if (path) shape("path", { d: path, "shape-rendering": "geometricPrecision" }, { fill: hue(record, expert), opacity: "0.82" });
    });
    const ticks = (shares, foot, height) => shares.map((share, bin) => (share > 0 ? `M${x(edges[bin])} ${foot}V${(foot - height * share).toFixed(2)}H${x(edges[bin + 1])}V${foot}Z` : "")).join("");
    if (recalls(record)) {
      shape("rect", { x: 0, y: 76, width: 1000, height: 24, class: "lane" });
      shape("path", { d: ticks(remembered, 100, 24), class: "remembered" });
    }
    const most = lost.reduce((high, share) => Math.max(high, share), 1e-9), height = flat ? 116 : recalls(record) ? 16 : 22;
    shape("path", { d: ticks(lost.map((share) => share && Math.max(0.25, share / most)), 120, height), class: "lost" });
    const cursor = shape("line", { class: "cursor", x1: -5, x2: -5, y1: 0, y2: 120 });
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    };
    svg.addEventListener("pointermove", (event) => { const at = 1000 * place(event); cursor.setAttribute("x1", at); cursor.setAttribute("x2", at); });
    svg.addEventListener("pointerleave", () => { cursor.setAttribute("x1", -5); cursor.setAttribute("x2", -5); });
    svg.addEventListener("click", (event) => go(place(event) * length));
    return make("div", { class: "chart-box" }, svg);
  }

  function legend(record) {
    const list = make("ul", { class: "legend" });
    const columns = shares(record), { lost, remembered } = record.field;
    record.experts.forEach((name, expert) => {
      const recalling = expert === record.memory;
      const column = (recalling ? remembered : columns[expert]).map((value, bin) => [value, recalling ? lost[bin] : 1]).filter(([value]) => value !== null);
      const total = column.reduce((sum, [, weight]) => sum + weight, 0);
      const mean = column.reduce((sum, [value, weight]) => sum + value * weight, 0) / (total || 1);
      list.append(make("li", {}, make("span", { class: "swatch", own: hue(record, expert) }), total ? `${name} ${percent(mean)}${recalling ? ` at lost ${units(record)}` : ""}` : name));
    });
    return list;
  }

  /** The characters of a restored piece, in runs of the same confidence; those that are mostly remembered, by themselves. */
  function runs(record, piece) {
    if (piece.chosen) return [{ text: piece.text, kind: "yours" }];
    if (piece.open) return [{ text: piece.text, kind: "open" }];
    const found = [], mostly = piece.weights[record.memory] >= 0.5;
    [...piece.guess].forEach((character, place) => {
      const kind = level(piece.sure[place]) + (mostly && piece.from?.[place] ? " remembered" : ""), last = found[found.length - 1];
      if (last && last.kind === kind) last.text += character;
      else found.push({ text: character, kind });
    });
    return found;
  }

  /** Where the characters of a piece were remembered from, in runs of the same place: { text, name, line }. */
  function sources(record, piece) {
    const found = [];
    [...piece.guess].forEach((character, place) => {
      const [number, line] = piece.from?.[place] ?? [null, null], last = found[found.length - 1];
      const name = number === null ? null : record.references[number].name;
      if (last && last.name === name && last.line === line) last.text += character;
      else found.push({ text: character, name, line });
    });
    return found.filter((one) => one.line !== null);
  }

  /** What two texts have in common at their ends, and what they have between: [left, one, other, right]. */
  function parted(one, other) {
    const [first, second] = [[...one], [...other]], most = Math.min(first.length, second.length);
    let left = 0, right = 0;
    while (left < most && first[left] === second[left]) left += 1;
    while (right < most - left && first[first.length - 1 - right] === second[second.length - 1 - right]) right += 1;
    const cut = (letters) => letters.slice(left, letters.length - right).join("");
    return [first.slice(0, left).join(""), cut(first), cut(second), first.slice(first.length - right).join("")];
  }

  const pictureOf = (record, change) => (record.pictures ?? []).find(({ spots }) => spots[change]);

  /** The picture of the line of changes, with their words marked; nothing if there is none. */
  function picture(record, changes) {
    const found = pictureOf(record, changes[0]);
    if (!found) return [];
    const boxes = new Set(changes.map((change) => JSON.stringify(found.spots[change]))); // changes may be in one word
    const spots = [...boxes].map((box) => {
      const [left, top, right, bottom] = JSON.parse(box), spot = make("i", {});
      for (const [side, share] of [["left", left], ["top", top], ["width", right - left], ["height", bottom - top]]) spot.style[side] = `${100 * share}%`;
      return spot;
    });
    const image = make("img", { alt: "The line of the page", src: found.image }), box = make("div", { class: "picture" }, make("div", {}, image, ...spots));
    const centre = () => {
      // A line that is a little too wide becomes smaller; one that could not be read then is scrolled.
      const fitting = box.parentElement && image.naturalWidth ? (box.parentElement.clientWidth - 2) * image.naturalHeight / image.naturalWidth : 0;
      if (fitting >= LOW && fitting < image.offsetHeight) image.style.height = `${fitting}px`;
      box.scrollLeft = spots[0].offsetLeft + spots[0].offsetWidth / 2 - box.clientWidth / 2;
    };
    image.addEventListener("load", centre);
    requestAnimationFrame(centre);
    return [box];
  }

  /** The word of a changed piece, as it was and as it is: [was, is]. */
  function words(record, piece) {
    const [left, was, now, right] = parted(piece.seen, piece.guess);
    return [["s", was, (one) => one.seen ?? one.text], ["b", now, (one) => one.text]].map(([tag, text, read]) => {
      const [before, after] = wordAround(record.pieces, piece, read);
      return make("code", { class: "word" }, before, left, ...(text ? [make(tag, {}, shown(text))] : []), right, after);
    });
  }

  /** All changes as a table: where, what was seen and what it became, how sure, what it gains; `go(piece)` goes there. */
  function listing(record, restored, go) {
    const home = new Map(restored.flatMap((piece, place) => Array.from({ length: piece.changes[1] - piece.changes[0] }, (_, at) => [piece.changes[0] + at, place])));
    const order = make("select", { ariaLabel: "In which order" }, make("option", { value: "" }, "as in the document"), make("option", { value: "sure" }, "least sure first"));
    const body = make("table", {}), more = make("button", { type: "button" });
    const title = (name, note) => make("th", { scope: "col", title: note }, name);
    let most = LISTED;
    function row(rank) {
      const change = record.changes[rank], place = home.get(rank), piece = restored[place];
      const alone = piece && piece.changes[1] - piece.changes[0] === 1;
      const [was, now] = alone ? words(record, piece) : [["s", change.seen], ["b", change.text]].map(([tag, text]) => make("code", { class: "word" }, make(tag, {}, shown(text))));
      const link = make("button", { type: "button", class: "link", title: "Show this change in the document" }, number(change.line));
      if (piece) link.addEventListener("click", () => go(place));
      const cells = [link, was, now, chance(change.probability), change.gain === null ? "∞" : change.gain.toFixed(1)];
      return make("tr", {}, ...cells.map((cell, at) => make("td", { class: at > 2 || !at ? "value" : "" }, cell)));
    }
    /** The rows of changes, those of one line together, below its picture. */
    function rows(ranks) {
      const groups = [];
      for (const rank of ranks) {
        const last = groups[groups.length - 1], found = pictureOf(record, rank);
        if (found && last?.found === found) last.ranks.push(rank);
        else groups.push({ found, ranks: [rank] });
      }
      return groups.flatMap(({ ranks: own }) => [...picture(record, own).map((line) => make("tr", { class: "line" }, make("td", { colSpan: 5 }, line))), ...own.map(row)]);
    }
    function fill() {
      const ranks = record.changes.map((_, rank) => rank);
      if (order.value) ranks.sort((one, other) => record.changes[one].probability - record.changes[other].probability);
      body.replaceChildren(
        make("thead", {}, make("tr", {}, title("Line", "of the document"), title("Seen", "what stood there"), title("Became", "what stands there now"), title("Sure", "the probability of the change"), title("Gain", "in nats, over the text as it was seen"))),
        make("tbody", {}, ...rows(ranks.slice(0, most))),
      );
      more.hidden = ranks.length <= most;
      more.textContent = `Show all ${number(ranks.length)}`;
    }
    order.addEventListener("change", fill);
    more.addEventListener("click", () => { most = Infinity; fill(); });
    fill();
    const pictured = new Set((record.pictures ?? []).flatMap(({ spots }) => Object.keys(spots))).size, lacking = record.changes.length - pictured;
    const note = pictured && lacking ? [make("p", { class: "constancy" }, `${counted(lacking, "change")} ${lacking === 1 ? "has" : "have"} no picture: the least sure come first, and a report holds so many.`)] : [];
    return make("section", { class: "panel" }, make("header", {}, make("h2", {}, "Changes"), make("div", { class: "tools" }, order)), make("div", { class: "changes", tabIndex: 0, role: "group", ariaLabel: "All changes" }, body, more), ...note);
  }

  const same = (one, other) => one[0] === other[0] && one[1] === other[1];

  /** The parts of words on either side of a gap, which may consist of several pieces, as they are or were: [left, right]. */
  function wordAround(pieces, piece, read = (one) => one.text) {
    const mine = (one) => one?.origin && same(one.origin, piece.origin), end = (text, by) => {
      let found = "";
      const letters = [...text];
      if (by < 0) letters.reverse();
      for (const letter of letters) {
        if (!WORD.test(letter)) return [found, true];
        found = by < 0 ? letter + found : found + letter;
      }
      return [found, false];
    };
    const walk = (place, by) => {
      let found = "";
      while (mine(pieces[place])) place += by;
      for (; pieces[place] && found.length < AROUND; place += by) {
        const [more, ended] = end(by < 0 ? read(pieces[place]).slice(-2 * AROUND) : read(pieces[place]).slice(0, 2 * AROUND), by);
        found = by < 0 ? more + found : found + more;
        if (ended) break;
      }
      const letters = [...found];
      return letters.length <= AROUND ? found : by < 0 ? `…${letters.slice(-AROUND).join("")}` : `${letters.slice(0, AROUND).join("")}…`;
    };
    const place = pieces.indexOf(piece);
    return [walk(place, -1), walk(place, 1)];
  }

  /**
   * Draw `record` into `root`. With `choose(piece, fill)` a reader can say what belongs into a gap, and with
   * `undo(piece)` take that back. Returns { select(index), pend(choices), place(), resume(place), destroy() }.
   */
  function draw(root, record, { choose = null, undo = null } = {}) {
    const restored = record.pieces.filter((piece) => piece.origin);
    const corrected = corrects(record), called = corrected ? "change" : "restored place";
    const sheet = make("div", { class: "document", tabIndex: 0, role: "group", ariaLabel: `The ${corrected ? "corrected" : "restored"} document. Arrow keys go from one ${called} to the next, Enter opens it.` });
    const blocks = [];
    let current = null, drawn = 0, count = 0, index = 0;
    const open = () => {
      blocks.push({ pieces: [], node: make("div", { class: "block" }) });
      return blocks[blocks.length - 1];
    };
    for (const piece of record.pieces) {
      if (!current || count > BLOCK) {
        current = open();
        count = 0;
      }
      // A long visible piece is cut at a line, so that blocks stay small.
      let text = piece.text;
      while (!piece.origin && count + text.length > BLOCK) {
        const cut = text.indexOf("\n", Math.max(0, BLOCK - count)) + 1;
        if (!cut || cut === text.length) break;
        current.pieces.push({ ...piece, text: text.slice(0, cut) });
        text = text.slice(cut);
        current = open();
        count = 0;
      }
      current.pieces.push(piece.origin ? { ...piece, index: index++ } : { ...piece, text });
      count += text.length;
    }
    mend(blocks);

    /** A changed piece, and before it what was seen, struck out; selecting the text leaves that out. */
    function drawChange(piece, holder) {
      const [left, was, now, right] = parted(piece.seen, piece.guess), nodes = [];
      if (was) nodes.push(make("s", { class: "was" }, shown(was)));
      if (now) nodes.push(make("span", { class: `r ${level(lowest(piece.sure))}` }, now));
      for (const node of nodes) node.dataset.i = piece.index;
      holder.append(left, ...nodes, right);
    }
    function drawBlock(block) {
      for (const piece of block.pieces) {
        if (corrected && piece.origin) { drawChange(piece, block.node); continue; }
        const holder = piece.expert === null || corrected ? block.node : make("span", { class: "of", own: hue(record, piece.expert) });
        if (!piece.origin) holder.append(piece.text);
        else
          for (const run of runs(record, piece)) {
            const node = make("span", { class: `r ${run.kind}` }, run.text);
            node.dataset.i = piece.index;
            if (/^[\r\n]+$/.test(run.text)) node.classList.add("nl");
            holder.append(node);
          }
        if (holder !== block.node) block.node.append(holder);
      }
    }
    function drawSome(until) {
      const stop = performance.now() + until;
      while (drawn < blocks.length && performance.now() < stop) drawBlock(blocks[drawn++]);
    }
    const all = () => drawSome(Infinity);
    sheet.append(...blocks.map((block) => block.node));
    drawSome(60);
    const later = () => { if (drawn < blocks.length) { drawSome(30); setTimeout(later, 8); } };
    setTimeout(later, 30);
    window.addEventListener("beforeprint", all);

    // The details of a restored place, in a box beside it.
    const tip = make("div", { class: "tip", hidden: true, role: "dialog", ariaLabel: "What is known of this place" });
    let pinned = false, at = -1;
    const nodesOf = (place) => sheet.querySelectorAll(`[data-i="${place}"]`);
    function bars(rows) {
      const list = make("div", { class: "bars" });
      for (const row of rows) {
        const bar = make("div", { class: "bar" }, make("i", {}));
        bar.firstChild.style.width = `${Math.max(1, 100 * row.value)}%`;
        if (row.own) bar.firstChild.style.setProperty("--own", row.own);
        const [left, right] = row.around ?? ["", ""], within = row.around ? [left, make("b", {}, shown(row.name)), right] : [shown(row.name)];
        const kind = `name${row.around ? " word" : ""}${row.taken ? " taken" : ""}`;
        const name = row.pick ? make("button", { class: kind, type: "button", title: row.taken ? "This is what you chose" : "Take this as right" }, ...within) : make("span", { class: kind, title: `${left}${row.name}${right}` }, ...within);
        if (row.pick) name.addEventListener("click", row.pick);
        list.append(name, bar, make("span", { class: "value" }, percent(row.value)));
      }
      return list;
    }
    /** Say where a piece was remembered from; a line of the document can be gone to. */
    function recalled(piece) {
      const found = sources(record, piece), list = make("ul", { class: "sources" });
      for (const one of found.slice(0, SOURCES)) {
        const where = one.name === null ? `line ${number(one.line)}` : `${one.name}, line ${number(one.line)}`;
        const link = one.name === null && pinned ? make("button", { class: "link", type: "button", title: "Show this line" }, where) : where;
        if (link !== where) link.addEventListener("click", () => showLine(one.line));
        list.append(make("li", {}, ...(piece.sure.length > 1 ? [make("code", {}, shown(one.text)), " "] : []), "remembered from ", link));
      }
      if (found.length > SOURCES) list.append(make("li", {}, `and ${counted(found.length - SOURCES, "more place")}`));
      return found.length ? [list] : [];
    }
    /** Go to a line of the damaged document, and select it. Restored line ends do not count: they were not there. */
    function showLine(line) {
      all();
      hide(true);
      const walker = document.createTreeWalker(sheet, NodeFilter.SHOW_TEXT), range = document.createRange();
      let ended = 0, begun = false;
      range.selectNodeContents(sheet);
      while (ended < line && walker.nextNode()) {
        const node = walker.currentNode;
        if (!begun && line === 1) { range.setStart(node, 0); begun = true; }
        if (node.parentNode.closest(".r")) continue;
        for (let place = node.data.indexOf("\n"); place >= 0 && ended < line; place = node.data.indexOf("\n", place + 1)) {
          ended += 1;
          if (ended === line - 1) range.setStart(node, place + 1);
          if (ended === line) range.setEnd(node, place);
        }
      }
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      (range.startContainer.parentNode.closest?.(".block") ?? sheet).scrollIntoView({ block: "nearest" }); // lays it out
      window.scrollBy(0, range.getBoundingClientRect().top - window.innerHeight / 2);
    }
    /** A changed piece: what was seen and what it became, how sure each change is, and the line of the page. */
    function fillChange(piece) {
      const [was, now] = words(record, piece);
      tip.replaceChildren(make("h3", {}, was, " became ", now));
      for (let at = piece.changes[0]; at < piece.changes[1]; at++) {
        const { seen, text, probability, gain } = record.changes[at];
        const which = piece.changes[1] - piece.changes[0] > 1 ? [make("code", {}, shown(seen) || "nothing"), " to ", make("code", {}, shown(text) || "nothing"), ": "] : [];
        tip.append(make("p", {}, ...which, `${chance(probability)} sure, gains ${gain === null ? "beyond measure" : `${gain.toFixed(1)} nats`}`), ...picture(record, [at]));
      }
    }
    function fillTip(place) {
      const piece = restored[place];
      if (corrected) { fillChange(piece); return; }
      // A gap may consist of several pieces, some of them left open.
      const whole = restored.filter((one) => same(one.origin, piece.origin)), around = wordAround(record.pieces, piece);
      const least = lowest(piece.sure), [left, right] = whole.length > 1 ? ["", ""] : around;
      tip.replaceChildren(
        make("h3", {}, piece.chosen ? "Chosen " : piece.open ? "Left open, perhaps " : "Restored ", make("code", { class: "word" }, left, make("b", {}, shown(piece.guess)), right)),
        make("p", {}, piece.chosen ? "as known text, by a reader" : piece.sure.length > 1 ? `each character at least ${percent(least)} sure` : `${percent(least)} sure`),
        ...recalled(piece),
      );
      if (piece.chosen && undo && pinned) {
        const back = make("button", { type: "button", class: "undo" }, "Undo this choice");
        back.addEventListener("click", () => { hide(true); undo(piece); });
        tip.append(back);
      }
      if (piece.fills.length) {
        const pick = (fill) => (choose && pinned ? () => { hide(true); choose(piece, fill); } : null);
        tip.append(make("h4", {}, choose && pinned ? (piece.chosen ? "It was chosen from" : "Choose what is right") : "Best fills of the whole gap"));
        tip.append(bars(piece.fills.map((fill) => ({ name: fill.text, around, taken: piece.chosen && fill.text === piece.guess, value: fill.probability, pick: pick(fill) }))));
      }
      if (!piece.chosen) tip.append(make("h4", {}, "Trusted experts"), bars(record.experts.map((name, expert) => ({ name, value: piece.weights[expert], own: hue(record, expert) }))));
      if (choose && pinned) {
        // The typed text replaces the whole gap.
        const input = make("input", { type: "text", placeholder: "or type your own", value: whole.length > 1 ? whole.map((one) => one.guess).join("") : "", ariaLabel: "Your own text for the whole gap", spellcheck: false });
        const form = make("form", { class: "own" }, input, make("button", { type: "submit", class: "primary" }, "Use"));
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
    function show(place, pin) {
      pinned = pin;
      tip.classList.toggle("passing", !pin); // it is in nobody's way
      const nodes = nodesOf(place);
      if (!nodes.length) return;
      fillTip(place);
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
    const outside = (event) => { if (pinned && !tip.contains(event.target) && !target(event)) hide(); };
    document.addEventListener("pointerdown", outside);
    const moved = () => hide();
    window.addEventListener("resize", moved);

    // Navigation from one restored place to the next.
    const filter = make("select", { ariaLabel: `Which ${called}s to show` },
      ...[[corrected ? "all changes" : "all restored", 1.01], ["less than 90 % sure", 0.9], ["less than 50 % sure", 0.5]].map(([name, value]) => make("option", { value }, name)));
    const counter = make("span", { class: "count", ariaLive: "polite" });
    const wanted = () => restored.map((piece, place) => place).filter((place) => restored[place].open || lowest(restored[place].sure) < +filter.value);
    function tally() {
      const list = wanted(), rank = list.indexOf(at);
      counter.textContent = rank < 0 ? counted(list.length, corrected ? "change" : "place") : `${number(rank + 1)} of ${number(list.length)}`;
    }
    function select(place, scroll = true) {
      all();
      for (const node of sheet.querySelectorAll(".now")) node.classList.remove("now");
      at = place;
      const nodes = nodesOf(place);
      for (const node of nodes) node.classList.add("now");
      if (scroll && nodes.length) nodes[0].scrollIntoView({ block: "center" });
      tally();
      return nodes.length > 0;
    }
    function step(by) {
      const list = wanted();
      if (!list.length) return;
      const next = by > 0 ? list.find((place) => place > at) ?? list[0] : list.findLast((place) => place < at) ?? list[list.length - 1];
      hide();
      select(next);
    }
    filter.addEventListener("change", () => {
      all();
      sheet.classList.toggle("quiet", +filter.value < 1);
      const kept = new Set(wanted());
      for (const node of sheet.querySelectorAll("[data-i]")) node.classList.toggle("muted", !kept.has(+node.dataset.i));
      tally();
    });
    sheet.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowRight" || event.key === "n") { event.preventDefault(); step(1); }
      else if (event.key === "ArrowLeft" || event.key === "p") { event.preventDefault(); step(-1); }
      else if (event.key === "Enter" && at >= 0) { event.preventDefault(); show(at, true); }
    });
    root.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(true); });
    const before = make("button", { type: "button", title: `Previous ${called} (left arrow in the document)` }, "‹ Previous");
    const after = make("button", { type: "button", title: `Next ${called} (right arrow in the document)` }, "Next ›");
    before.addEventListener("click", () => step(-1));
    after.addEventListener("click", () => step(1));

    function go(place) {
      all();
      const near = restored.findIndex((piece) => piece.at[1] >= place);
      if (near >= 0) select(near);
    }
    const kinds = make("ul", { class: "legend" },
      ...[["sure", "at least 90 % sure"], ["fair", "50 to 90 %"], ["poor", "less"], ...(record.summary.left_open ? [["open", "left open"]] : []), ...(recalls(record) ? [["remembered", "mostly remembered"]] : []), ...(record.summary.chosen ? [["yours", "chosen"]] : [])].map(([kind, name]) => make("li", {}, make("span", { class: `r ${kind}` }, "abc"), name)),
      ...(corrected ? [make("li", {}, make("s", { class: "was" }, "abc"), "as it was seen")] : []));
    const axis = (about, end) => make("div", { class: "axis" }, make("span", {}, "0"), make("span", {}, about), make("span", {}, end));
    const along = corrected
      ? restored.length ? [make("section", { class: "panel chart-panel" }, make("header", {}, make("h2", {}, "Where it was changed"), make("span", { class: "by" }, "models:"), legend(record)), chart(record, go), axis("red: changes", counted(record.correction.characters, "character")))] : record.out_of_time || (record.notices ?? []).length ? [] : [make("p", { class: "warning", role: "note" }, "Nothing had to be changed: no other text is likely enough.")]
      : [make("section", { class: "panel chart-panel" }, make("header", {}, make("h2", {}, "Trusted experts along the document"), legend(record)), chart(record, go),
        axis(`${recalls(record) ? `middle: the memory, at lost ${units(record)}; ` : ""}red: where ${units(record)} were lost`, `${number(record.summary.bytes)} bytes`), ...constancy(record))];
    const reveal = (place) => { if (select(place)) sheet.focus({ preventScroll: true }); };
    root.classList.add("view");
    root.style.position = "relative";
    root.replaceChildren(
      cards(record),
      ...notices(record),
      ...haste(record),
      ...along,
      ...(corrected && record.changes.length ? [listing(record, restored, reveal)] : []),
      make("section", { class: "panel" }, make("header", {}, make("h2", {}, "Document"), kinds, make("div", { class: "tools" }, filter, before, after, counter)), sheet),
      tip,
    );
    tally();
    /** Show choices that wait to be read: [{ origin, text }]. */
    function pend(choices) {
      if (choices.length) all();
      for (const { origin, text } of choices) {
        const nodes = restored.flatMap((piece, place) => (same(piece.origin, origin) ? [...nodesOf(place)] : []));
        nodes.forEach((node, number) => {
          node.className = "r pending";
          node.textContent = number ? "" : text ?? "…";
          node.title = text === null ? "Undone; its surroundings are read soon" : "Chosen; its surroundings are read soon";
        });
      }
    }
    /** Where the reader is, for another drawing of the same document. */
    function place() {
      const piece = restored[at];
      return { origin: piece?.origin ?? null, pinned: pinned && !tip.hidden, typed: tip.querySelector("input")?.value ?? "", filter: filter.selectedIndex };
    }
    function resume({ origin, pinned: open, typed, filter: kind }) {
      filter.selectedIndex = kind;
      if (kind) filter.dispatchEvent(new Event("change"));
      const there = origin ? restored.findIndex((piece) => piece.origin[1] > origin[0]) : -1;
      if (there < 0) return;
      select(there, false);
      if (!open || !same(restored[there].origin, origin)) return;
      show(there, true);
      const input = tip.querySelector("input");
      if (input && typed) { input.value = typed; input.focus({ preventScroll: true }); }
    }
    return {
      select,
      pend,
      place,
      resume,
      destroy() { window.removeEventListener("beforeprint", all); window.removeEventListener("resize", moved); document.removeEventListener("pointerdown", outside); root.replaceChildren(); },
    };
  }

  /** Blocks are boxes, so a line that continues in the next block would be broken: move its beginning to that block. */
  function mend(blocks) {
    for (let place = 0; place + 1 < blocks.length; place++) {
      const moved = [];
      let pieces = blocks[place].pieces;
      while (pieces.length) {
        const last = pieces[pieces.length - 1];
        const cut = last.origin ? -1 : last.text.lastIndexOf("\n");
        if (cut >= 0) {
          if (cut + 1 < last.text.length) {
            moved.push({ ...last, text: last.text.slice(cut + 1) });
            pieces[pieces.length - 1] = { ...last, text: last.text.slice(0, cut + 1) };
          }
          break;
        }
        moved.push(pieces.pop());
      }
      moved.reverse();
      if (moved.length > LONG || moved.reduce((sum, piece) => sum + piece.text.length, 0) > 2 * BLOCK) {
        blocks[place].pieces = pieces.concat(moved); // a very long line is broken here
      } else blocks[place + 1].pieces = moved.concat(blocks[place + 1].pieces);
    }
  }

  /** Draw the record that the page contains. */
  function start() {
    draw(document.getElementById("view"), JSON.parse(document.getElementById("record").textContent));
  }

  return { draw, start };
})();
