// The trace: a list of events that is filled where it is looked at. Events come in blocks; a block
// far from the window is emptied again and keeps its height, so 10,000 events stay quick.

import { get } from "./api.js";
import { alertUser, count, el, fill } from "./dom.js";

const BLOCK = 40;
const GUESS = 120; // pixels of an event that was never shown

export class Reader {
  /** `on`: `evidence(event)`, `decisive(event)`, `quote(event, text)`: what the annotator picks. */
  constructor(trace, { about, index }, on) {
    Object.assign(this, { trace, about, index, on });
    this.positions = index.seq.map((_, at) => at);
    this.at = new Map(index.seq.map((seq, at) => [seq, at]));
    this.current = 0;
    this.marks = { evidence: new Set(), decisive: null, quotes: [] };
    this.rows = new Map(); // position -> what the server said of it
    this.matches = null;
    this.scroller = el("div", { class: "events", role: "list", "aria-label": "Events", tabindex: "-1" });
    this.observer = new IntersectionObserver((seen) => seen.forEach((one) => this.#seen(one)), {
      root: this.scroller,
      rootMargin: "1200px 0px",
    });
    this.node = el("section", { class: "reader" }, this.#tools(), this.scroller);
    this.node.addEventListener("mouseup", () => setTimeout(() => this.#offerQuote()));
    this.quoteButton = el("button", { type: "button", class: "quote-here", hidden: true, onclick: () => this.quoteSelection() });
    this.node.append(this.quoteButton);
    this.#build();
  }

  // --- tools above the list ---------------------------------------------------------------------

  #tools() {
    const { kinds, roles } = this.index;
    const options = (names, all) => [el("option", { value: "" }, all), ...names.map((name, at) => el("option", { value: at }, name || "(nobody)"))];
    this.search = el("input", { type: "search", placeholder: "Search  /", "aria-label": "Search the trace" });
    this.search.addEventListener("input", () => this.#searchSoon());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextMatch(event.shiftKey ? -1 : 1);
    });
    this.found = el("span", { class: "quiet found", "aria-live": "polite" });
    this.role = el("select", { "aria-label": "Role", onchange: () => this.#filter() }, options(roles, "All roles"));
    this.kind = el("select", { "aria-label": "Kind of event", onchange: () => this.#filter() }, options(kinds, "All kinds"));
    this.jump = el("input", { type: "number", min: "0", placeholder: "Event  g", "aria-label": "Go to event number" });
    this.jump.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.jump.value !== "") {
        this.goTo(Number(this.jump.value));
        this.jump.blur();
      }
    });
    return el("div", { class: "tools" }, this.search, this.found, this.role, this.kind, this.jump);
  }

  #searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const words = this.search.value;
      try {
        const found = words ? await get("search", { trace: this.trace, words }) : null;
        if (words !== this.search.value) return; // typed on
        this.matches = found;
        this.#showMatches();
        if (found?.length) this.nextMatch(0);
        this.#highlight();
      } catch (error) {
        alertUser(error.message);
      }
    }, 250);
  }

  #visibleMatches() {
    const shown = new Set(this.positions);
    return (this.matches ?? []).filter((at) => shown.has(at));
  }

  #showMatches() {
    const matches = this.#visibleMatches();
    const at = matches.indexOf(this.current);
    this.found.textContent = !this.matches ? "" : !matches.length ? "not found" : at < 0 ? count(matches.length, "event") : `${at + 1} of ${count(matches.length, "event")}`;
  }

  /** Go to the next (1) or previous (-1) event that was found; 0: this one or the next. */
  nextMatch(way) {
    const matches = this.#visibleMatches();
    if (!matches.length) return;
    const next = way < 0 ? matches.findLast((at) => at < this.current) : matches.find((at) => (way ? at > this.current : at >= this.current));
    this.select(next ?? (way < 0 ? matches.at(-1) : matches[0]));
    this.#showMatches();
  }

  #filter() {
    const role = this.role.value, kind = this.kind.value;
    this.positions = this.index.seq.map((_, at) => at).filter((at) =>
      (role === "" || this.index.role[at] === Number(role)) && (kind === "" || this.index.kind[at] === Number(kind)));
    this.#build();
    const near = this.positions.find((at) => at >= this.current) ?? this.positions.at(-1);
    if (near !== undefined) this.select(near);
    this.#showMatches();
  }

  // --- the list ---------------------------------------------------------------------------------

  #build() {
    this.observer.disconnect();
    this.blocks = [];
    for (let start = 0; start < this.positions.length; start += BLOCK) {
      const positions = this.positions.slice(start, start + BLOCK);
      const block = { positions, filled: false, node: el("div", { class: "block", role: "presentation" }) };
      block.node.style.minHeight = `${positions.length * GUESS}px`;
      block.node.block = block;
      this.blocks.push(block);
    }
    const nothing = el("p", { class: "quiet empty" }, "No event has this role and kind.");
    fill(this.scroller, this.#intro(), this.blocks.length ? this.blocks.map((block) => block.node) : nothing);
    for (const block of this.blocks) this.observer.observe(block.node);
  }

  #intro() {
    const { task, roles, problems } = this.about;
    const described = roles.filter((role) => role.text);
    return el("div", { class: "intro" },
      task && el("details", { open: task.length < 1500 }, el("summary", {}, "Task"), el("div", { class: "text" }, task)),
      described.length > 0 && el("details", {}, el("summary", {}, `What the ${count(described.length, "role is", "roles are")} told`),
        described.map((role) => el("div", { class: "told" }, el("b", {}, role.name), el("div", { class: "text" }, role.text)))),
      problems.length > 0 && el("details", { class: "problems" }, el("summary", {}, `${count(problems.length, "part")} of the file could not be read`),
        problems.map((problem) => el("p", {}, problem))));
  }

  #seen({ target, isIntersecting }) {
    const block = target.block;
    if (isIntersecting) this.#fillBlock(block);
    else if (block.filled) {
      block.node.style.minHeight = `${block.node.offsetHeight}px`;
      block.node.replaceChildren();
      block.filled = false;
    }
  }

  async #fillBlock(block) {
    if (block.filled || block.filling) return block.filling;
    block.filling = (async () => {
      try {
        await this.#fetch(block.positions);
        block.node.replaceChildren(...block.positions.map((at) => this.#event(this.rows.get(at))));
        block.node.style.minHeight = "";
        block.filled = true;
        this.showMarks(block.node);
        this.#highlight();
      } catch (error) {
        alertUser(error.message);
      } finally {
        block.filling = null;
      }
    })();
    return block.filling;
  }

  async #fetch(positions) {
    const missing = positions.filter((at) => !this.rows.has(at));
    for (let from = 0; from < missing.length;) {
      let to = from; // one request for each run of neighbours
      while (to + 1 < missing.length && missing[to + 1] - missing[from] < 200) to += 1;
      const rows = await get("events", { trace: this.trace, start: missing[from], count: missing[to] - missing[from] + 1 });
      for (const row of rows) if (!this.rows.has(row.at)) this.rows.set(row.at, row);
      from = to + 1;
    }
  }

  #event(row) {
    const text = el("div", { class: "text" });
    this.#write(text, row);
    const hue = Math.max(0, this.index.roles.indexOf(row.role)) % 6;
    const to = row.to?.length ? ` to ${row.to.join(", ")}` : "";
    const node = el("article", { class: `event kind-${row.kind}`, role: "listitem", tabindex: "-1", data: { at: row.at, seq: row.seq } },
      el("header", {},
        el("span", { class: "seq" }, `#${row.seq}`),
        row.role && el("b", { class: `who hue${hue}` }, row.role),
        el("span", { class: "did" }, `${row.label}${to}`),
        el("span", { class: "marks" },
          el("button", { type: "button", class: "pick evidence", title: "Evidence of the chosen mode (e)", "aria-pressed": "false" }, "Evidence"),
          el("button", { type: "button", class: "pick decisive", title: "The decisive step (d)", "aria-pressed": "false" }, "Decisive"))),
      row.length > 0 && text,
      row.aside && el("div", { class: "aside" }, row.aside),
      row.text.length < row.length && this.#more(row, text));
    node.addEventListener("click", (event) => this.#clicked(event, row));
    return node;
  }

  #clicked(event, row) {
    this.select(row.at, { scroll: false });
    if (event.target.closest(".evidence")) this.on.evidence(row);
    else if (event.target.closest(".decisive")) this.on.decisive(row);
  }

  /** The text with code between fences set apart; still one text for selecting and quoting. */
  #write(node, row) {
    const parts = row.text.split(/(```[^\n]*\n[\s\S]*?```)/);
    fill(node, parts.map((part, at) => (at % 2 ? el("span", { class: "code" }, part) : document.createTextNode(part))));
  }

  #more(row, text) {
    const rest = row.length - row.text.length;
    const button = el("button", { type: "button", class: "more" }, `Show the other ${count(rest, "character")}`);
    button.addEventListener("click", async (event) => {
      event.stopPropagation();
      try {
        row.text = (await get("text", { trace: this.trace, at: row.at })).text;
        this.#write(text, row);
        button.remove();
        this.#highlight();
      } catch (error) {
        alertUser(error.message);
      }
    });
    return button;
  }

  // --- moving -----------------------------------------------------------------------------------

  /** Go to the event with this number. */
  goTo(seq) {
    const at = this.at.get(seq);
    if (at === undefined) return alertUser(`There is no event ${seq} in this trace.`);
    if (!this.positions.includes(at)) {
      this.role.value = this.kind.value = "";
      this.#filter();
    }
    return this.select(at);
  }

  /** The next (1) or previous (-1) event of the list. */
  step(way) {
    const here = this.positions.indexOf(this.current);
    const next = this.positions[Math.min(Math.max(here + way, 0), this.positions.length - 1)];
    if (next !== undefined) this.select(next);
  }

  async select(at, { scroll = true } = {}) {
    this.current = at;
    this.showMarks();
    if (!scroll) return;
    const block = this.blocks.find((one) => one.positions.includes(at));
    if (!block) return;
    if (!block.filled) block.node.scrollIntoView({ block: "start" });
    await this.#fillBlock(block);
    if (this.current !== at) return; // gone on meanwhile
    this.showMarks();
    const node = this.scroller.querySelector(`[data-at="${at}"]`);
    if (!node) return;
    const seen = node.getBoundingClientRect(), frame = this.scroller.getBoundingClientRect();
    if (seen.top < frame.top || seen.bottom > frame.bottom) node.scrollIntoView({ block: seen.height > frame.height ? "start" : "nearest" });
  }

  get currentRow() {
    return this.rows.get(this.current);
  }

  // --- marks and quotes -------------------------------------------------------------------------

  /** Show what is evidence of the chosen mode, what is decisive, and where one is. */
  mark(marks) {
    this.marks = marks;
    this.showMarks();
    this.#highlight();
  }

  showMarks(within = this.scroller) {
    for (const node of within.querySelectorAll(".event")) {
      const seq = Number(node.dataset.seq);
      node.classList.toggle("current", Number(node.dataset.at) === this.current);
      for (const [name, on] of [["evidence", this.marks.evidence.has(seq)], ["decisive", this.marks.decisive === seq]]) {
        node.classList.toggle(`is-${name}`, on);
        node.querySelector(`.pick.${name}`).setAttribute("aria-pressed", on);
      }
    }
  }

  #highlight() {
    if (!globalThis.CSS?.highlights) return; // an older browser: no colour, nothing else is lost
    const quotes = new Highlight(), words = new Highlight();
    const wanted = this.matches && this.search.value.toLowerCase();
    for (const node of this.scroller.querySelectorAll(".event")) {
      const seq = Number(node.dataset.seq), text = node.querySelector(".text");
      if (!text) continue;
      for (const quote of this.marks.quotes) {
        if (quote.events.includes(seq)) for (const range of ranges(text, quote.text)) quotes.add(range);
      }
      if (wanted) for (const range of ranges(text, wanted, true)) words.add(range);
    }
    CSS.highlights.set("quote", quotes);
    CSS.highlights.set("found", words);
  }

  /**
   * The text that is selected, with its event; null if there is none, `apart` if there are several.
   * What counts is the text of events: a selection may begin in a heading, or end, as after three
   * clicks, at the very beginning of the next event.
   */
  selection() {
    const chosen = getSelection();
    if (!chosen?.rangeCount || chosen.isCollapsed) return null;
    const range = chosen.getRangeAt(0), parts = [];
    for (const text of this.scroller.querySelectorAll(".event .text")) {
      if (!range.intersectsNode(text)) continue;
      const part = range.cloneRange(), whole = new Range();
      whole.selectNodeContents(text);
      if (part.compareBoundaryPoints(Range.START_TO_START, whole) < 0) part.setStart(whole.startContainer, whole.startOffset);
      if (part.compareBoundaryPoints(Range.END_TO_END, whole) > 0) part.setEnd(whole.endContainer, whole.endOffset);
      const words = part.toString().trim();
      if (words) parts.push({ row: this.rows.get(Number(text.closest(".event").dataset.at)), text: words });
    }
    if (parts.length > 1) return { apart: true };
    return parts[0] ?? null;
  }

  #offerQuote() {
    const chosen = this.selection();
    this.quoteButton.hidden = !chosen;
    if (!chosen) return;
    this.quoteButton.disabled = Boolean(chosen.apart);
    this.quoteButton.textContent = chosen.apart ? "A quote comes from one event" : `Quote this  q`;
    const box = getSelection().getRangeAt(0).getBoundingClientRect(), frame = this.node.getBoundingClientRect();
    this.quoteButton.style.top = `${Math.max(box.top - frame.top - 36, 48)}px`;
    this.quoteButton.style.left = `${Math.min(Math.max(box.left - frame.left, 8), frame.width - 220)}px`;
  }

  quoteSelection() {
    const chosen = this.selection();
    if (!chosen || chosen.apart) return alertUser(chosen ? "A quote comes from one event: select less." : "Select the words to quote first.");
    this.quoteButton.hidden = true;
    getSelection().removeAllRanges();
    return this.on.quote(chosen.row, chosen.text);
  }

  close() {
    this.observer.disconnect();
    CSS.highlights?.clear();
  }
}

/** Where words stand in an element's text, white space apart, as ranges. */
function ranges(element, words, all = false) {
  const pattern = words.trim().split(/\s+/).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  if (!pattern) return [];
  const nodes = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let whole = "";
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    nodes.push([whole.length, node]);
    whole += node.data;
  }
  const place = (at) => {
    const [start, node] = nodes.findLast(([from]) => from <= at);
    return [node, at - start];
  };
  const found = [];
  for (const match of whole.matchAll(new RegExp(pattern, all ? "gi" : "g"))) {
    const range = new Range();
    range.setStart(...place(match.index));
    const [last, at] = place(match.index + match[0].length - 1);
    range.setEnd(last, at + 1);
    found.push(range);
    if (!all || found.length >= 500) break;
  }
  return found;
}
