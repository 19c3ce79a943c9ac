// One failure mode as a card: its verdict, and, where it is the chosen one, what the mode means and
// the evidence. Used for labelling and for deciding what holds.

import { el, fill, words } from "./dom.js";

export const VERDICTS = [["present", "y"], ["absent", "n"], ["unknown", "u"]];
export const EMPTY = { verdict: null, events: [], role: "", quote: "", note: "" };

/** The key that chooses the mode at this place: 1 to 9, 0, then the same with shift. */
export function keyOf(at) {
  if (at > 19) return "";
  return (at >= 10 ? "⇧" : "") + String((at + 1) % 10);
}

export class Card {
  /** `on`: `choose()`, `change(value, options)`, `goTo(seq)`. `names`: roles that can be answerable. */
  constructor(mode, at, names, on) {
    Object.assign(this, { mode, names, on, value: EMPTY, locked: false, chosen: false, problem: "" });
    this.verdicts = VERDICTS.map(([verdict, key]) => el("button", {
      type: "button", class: `verdict ${verdict}`, title: `${verdict} (${key})`, data: { verdict },
      onclick: () => this.setVerdict(verdict),
    }, verdict));
    this.head = el("button", { type: "button", class: "choose", onclick: () => on.choose() },
      el("kbd", {}, keyOf(at)), el("span", { class: "name" }, mode.name));
    this.body = el("div", { class: "body" });
    this.node = el("section", { class: "card", data: { mode: mode.id } },
      el("div", { class: "head" }, this.head, el("div", { class: "verdicts", role: "group", "aria-label": `Verdict on ${mode.name}` }, this.verdicts)),
      this.body);
  }

  setVerdict(verdict) {
    if (this.locked) return;
    this.on.choose();
    this.#change({ verdict: this.value.verdict === verdict ? null : verdict });
  }

  toggleEvent(row) {
    if (this.locked) return;
    const there = this.value.events.includes(row.seq);
    const events = there ? this.value.events.filter((seq) => seq !== row.seq) : [...this.value.events, row.seq];
    this.#change({ ...this.#asPresent(row), events });
  }

  quote(row, text) {
    if (this.locked) return;
    const events = this.value.events.includes(row.seq) ? this.value.events : [...this.value.events, row.seq];
    this.#change({ verdict: "present", events, quote: text, role: row.role });
  }

  /** Evidence is of something that is there; its author is the one who is answerable, at first. */
  #asPresent(row) {
    return { verdict: "present", role: this.value.role || row.role };
  }

  take(value) {
    if (!this.locked) this.#change({ ...EMPTY, ...value });
  }

  #change(part, options = {}) {
    this.value = { ...this.value, ...part };
    this.on.change(this.value, options);
    if (!options.typing) this.show();
  }

  update({ value, locked, chosen, problem, extra = [] }) {
    Object.assign(this, { value: { ...EMPTY, ...value }, locked, chosen, problem, extra });
    this.show();
  }

  setProblem(problem) {
    this.problem = problem;
    if (this.problemLine) this.problemLine.textContent = this.#problemText();
    this.node.classList.toggle("incomplete", Boolean(this.#problemText()));
  }

  #problemText() {
    return this.value.verdict === "present" && this.problem ? `Not evidence yet: it ${this.problem}.` : "";
  }

  show() {
    const { value, locked } = this;
    this.node.classList.toggle("chosen", this.chosen);
    this.node.classList.toggle("incomplete", Boolean(this.#problemText()));
    this.node.dataset.verdict = value.verdict ?? "";
    this.head.setAttribute("aria-expanded", this.chosen);
    for (const button of this.verdicts) {
      button.setAttribute("aria-pressed", button.dataset.verdict === value.verdict);
      button.disabled = locked;
    }
    if (!this.chosen) return fill(this.body, this.#short());
    const typing = this.body.contains(document.activeElement) && document.activeElement.tagName === "TEXTAREA";
    if (typing && this.shown) return undefined; // never take the field away from under the cursor
    this.shown = true;
    const present = value.verdict === "present"; // then the evidence is what is worked on
    return fill(this.body, this.#meaning(), this.extra, present && this.#evidence(), present && this.#note(), this.#examples(), !present && this.#note());
  }

  #short() {
    this.shown = false;
    const { events, quote, verdict } = this.value;
    const flaw = this.#problemText();
    return [
      verdict === "present" && (events.length > 0 || quote) && el("p", { class: "short" }, events.map((seq) => `#${seq} `), quote && el("q", {}, cut(quote, 90))),
      flaw && el("p", { class: "flaw" }, flaw),
    ];
  }

  #meaning() {
    return el("p", { class: "meaning" }, words(this.mode.definition));
  }

  #examples() {
    const { positive, near_miss, confused_with, id, absence } = this.mode;
    return el("div", { class: "examples" },
      el("dl", {},
        el("dt", {}, "Example"), el("dd", {}, words(positive)),
        el("dt", {}, "Near miss"), el("dd", {}, words(near_miss)),
        confused_with.length > 0 && [el("dt", {}, "Taken for"), el("dd", {}, confused_with.map((other, at) => [at > 0 && ", ", el("code", {}, other)]).flat())]),
      el("p", { class: "quiet" }, el("code", {}, id), absence && ": something is missing. Name the event where it should have been; a quote is not needed."));
  }

  #evidence() {
    const { value, locked } = this;
    const chips = value.events.map((seq) => el("span", { class: "chip" },
      el("button", { type: "button", title: "Go to the event", onclick: () => this.on.goTo(seq) }, `#${seq}`),
      !locked && el("button", { type: "button", class: "drop", "aria-label": `Event ${seq} is no evidence`, onclick: () => this.toggleEvent({ seq, role: "" }) }, "×")));
    const names = [...new Set(["", ...this.names, value.role])];
    const role = el("select", { disabled: locked, onchange: () => this.#change({ role: role.value }) },
      names.map((name) => el("option", { value: name }, name || "(nobody)")));
    role.value = value.role;
    this.problemLine = el("p", { class: "flaw", "aria-live": "polite" }, this.#problemText());
    return el("div", { class: "evidence-of" },
      el("div", { class: "field" }, el("span", { class: "term" }, "Events"),
        el("span", { class: "chips" }, chips.length ? chips : el("span", { class: "quiet" }, "Press “Evidence” at an event, or e"))),
      el("div", { class: "field" }, el("span", { class: "term" }, "Quote"),
        value.quote
          ? el("span", {}, el("q", { class: "quote", title: value.quote }, cut(value.quote, 300)), !locked && el("button", { type: "button", class: "drop", "aria-label": "Drop the quote", onclick: () => this.#change({ quote: "" }) }, "×"))
          : el("span", { class: "quiet" }, "Select words in an event, then q")),
      el("label", { class: "field" }, el("span", { class: "term" }, "Role"), role),
      this.problemLine);
  }

  #note() {
    const note = el("textarea", { rows: "2", disabled: this.locked, placeholder: "Why (optional)", value: this.value.note });
    note.addEventListener("input", () => this.#change({ note: note.value }, { typing: true }));
    return el("label", { class: "field" }, el("span", { class: "term" }, "Note"), note);
  }
}

export function cut(text, length) {
  const line = text.replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}
