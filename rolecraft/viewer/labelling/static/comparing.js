// What everybody says about one trace, and what holds: verdicts beside each other, and a decision
// with who made it and why.

import { get, post } from "./api.js";
import { cut, VERDICTS } from "./card.js";
import { alertUser, el, fill } from "./dom.js";
import { inWords } from "./labelling.js";
import { Saver } from "./saving.js";

export class Comparing {
  constructor({ annotator, trace, modes }, on) {
    Object.assign(this, { annotator, trace, modes, on, at: 0, onlyApart: false });
    this.about = { annotator, trace };
    this.node = el("section", { class: "panel comparing", "aria-label": "Comparison" });
    this.open();
  }

  async open() {
    try {
      const sheet = await get("sheet", this.about);
      if (sheet.looked) return this.load();
      fill(this.node, el("div", { class: "gate" },
        el("h2", {}, "Compare"),
        el("p", {}, sheet.done
          ? "You have finished this trace. Once you look at what others say, your labels of this round stay as they are; you can change your mind in the next round."
          : "You have not finished this trace. If you look at what others say now, this round of yours is closed and is not exported: it would not be blind. Look now only if you decide what holds and do not label."),
        el("div", { class: "buttons" },
          el("button", { type: "button", class: "main look", onclick: () => this.#look() }, sheet.done ? "Look at what others say" : "Close my round and look"),
          el("button", { type: "button", onclick: () => this.on.label() }, "Back to my labels"))));
    } catch (error) {
      alertUser(error.message);
    }
    return undefined;
  }

  async #look() {
    try {
      await post("reveal", this.about);
      await this.load();
    } catch (error) {
      alertUser(error.message);
    }
  }

  async load() {
    try {
      this.said = await get("compare-trace", this.about);
    } catch (error) {
      return alertUser(error.message);
    }
    this.saver = new Saver("adjudicate", this.about, this.said.gold.values, this.said.gold.revs, {
      status: this.on.status,
      saved: (field, answer) => {
        this.said.gold.authors[field] = answer.by;
        this.said.gold.flaws[field] = answer.flaw;
        this.#showOne(field);
      },
      conflict: (field, mine, now) => this.#conflict(field, mine, now),
      refused: (field, error) => {
        alertUser(error.message);
        this.load();
      },
    });
    return this.show();
  }

  get busy() {
    return this.saver?.busy ?? false;
  }

  #conflict(field, mine, now) {
    const settle = (value) => {
      line.remove();
      this.saver.settle(field, value);
      this.#showOne(field);
    };
    const line = alertUser(
      `“${field.replace("mode/", "")}” was decided by ${now.by} in the meantime as ${inWords(now.value)}; yours is ${inWords(mine)}. Both are kept in the file; which one holds?`,
      el("button", { type: "button", onclick: () => settle(this.saver.values[field]) }, "Mine"),
      el("button", { type: "button", onclick: () => settle(now.value) }, `${now.by}'s`));
    line.classList.add("conflict");
  }

  // --- showing ----------------------------------------------------------------------------------

  get fields() {
    return [...this.modes.map((mode) => [`mode/${mode.id}`, mode.name]), ["decisive", "Decisive step"], ["outcome", "Was the task done?"]];
  }

  show() {
    const { annotators, disagreements } = this.said;
    this.places = new Map();
    const agreed = this.fields.filter(([field]) => annotators.length > 1 && !disagreements.includes(field) && !this.#decided(field));
    const people = annotators.map(({ name, round, saw }) => `${name} (round ${round}${saw.length ? ", saw suggestions" : ""})`);
    const filter = el("input", { type: "checkbox", onchange: () => {
      this.onlyApart = filter.checked;
      this.show();
    } });
    filter.checked = this.onlyApart;
    fill(this.node,
      el("div", { class: "panel-top" },
        el("p", {}, annotators.length ? el("b", {}, people.join(", ")) : "Nobody has finished this trace yet."),
        el("button", { type: "button", onclick: () => this.on.label() }, "Back to my labels")),
      annotators.length > 1 && el("p", {}, disagreements.length ? `They disagree on ${disagreements.length} of ${this.fields.length} points.` : "They agree on everything."),
      annotators.length > 0 && el("div", { class: "buttons" },
        el("label", {}, filter, " Disagreements only"),
        agreed.length > 0 && el("button", { type: "button", class: "all-agreed", onclick: () => this.#takeAgreed(agreed) }, `Decide the ${agreed.length} agreed points as agreed`)),
      this.fields.filter(([field]) => !this.onlyApart || disagreements.includes(field)).map(([field, name]) => {
        const place = el("section", { class: "card compared", data: { field } });
        this.places.set(field, [place, name]);
        this.#showOne(field);
        return place;
      }));
    this.on.status(this.busy ? "busy" : "ok", this.busy ? "Saving…" : "All saved");
    this.on.marks();
  }

  #decided(field) {
    const value = this.saver.values[field];
    return field.startsWith("mode/") ? Boolean(value?.verdict) : value !== undefined;
  }

  #showOne(field) {
    const [place, name] = this.places.get(field) ?? [];
    if (!place) return;
    if (place.contains(document.activeElement) && document.activeElement.tagName === "TEXTAREA") return;
    const apart = this.said.disagreements.includes(field);
    place.classList.toggle("apart", apart);
    fill(place,
      el("div", { class: "head" }, el("b", { class: "name" }, name), apart && el("span", { class: "tag" }, "disagreement")),
      el("ul", { class: "said" }, this.said.annotators.map(({ name: who }) => this.#line(field, who))),
      this.#decision(field));
  }

  #line(field, who) {
    const value = this.said.fields[field][who];
    return el("li", {}, el("b", { class: "who" }, who), this.#value(field, value),
      el("button", { type: "button", class: "decide-so", onclick: () => this.#decide(field, value) }, "Decide so"));
  }

  #value(field, value) {
    if (field === "outcome") return el("span", {}, value === true ? "done" : value === false ? "not done" : "not said");
    if (field === "decisive") return el("span", {}, value ? [`${value.role || "nobody"} `, value.step !== null && this.#link(value.step)] : "none named");
    return el("span", { class: `value ${value?.verdict ?? ""}` }, value?.verdict ?? "no verdict",
      value?.verdict === "present" && [" ", value.events.map((seq) => this.#link(seq)), value.role && ` ${value.role} `, value.quote && el("q", { title: value.quote }, cut(value.quote, 160))],
      value?.note && el("span", { class: "quiet" }, ` ${value.note}`));
  }

  #link(seq) {
    return el("button", { type: "button", class: "link", onclick: () => this.on.goTo(seq) }, `#${seq} `);
  }

  #decision(field) {
    const value = this.saver.values[field], decided = this.#decided(field);
    const flaw = this.said.gold.flaws[field];
    const why = el("textarea", { rows: "1", placeholder: "Why", "aria-label": "Why this holds", value: value?.why ?? "" });
    why.addEventListener("input", () => this.saver.set(field, { ...this.saver.values[field], why: why.value }, { typing: true }));
    return el("div", { class: "decision", data: { decided } },
      el("span", { class: "term" }, decided ? `Decided by ${this.said.gold.authors[field] ?? this.annotator}` : "Not decided"),
      decided && this.#value(field, value),
      field.startsWith("mode/") && el("span", { class: "verdicts", role: "group", "aria-label": "Decide" },
        VERDICTS.filter(([verdict]) => verdict !== "present").map(([verdict]) => el("button", {
          type: "button", class: `verdict ${verdict}`, "aria-pressed": value?.verdict === verdict, onclick: () => this.#decide(field, { verdict }),
        }, verdict))),
      flaw && el("p", { class: "flaw" }, `Not evidence: it ${flaw}.`),
      decided && value !== null && typeof value === "object" && why);
  }

  #decide(field, value, why) {
    const old = this.saver.values[field];
    let decided = value ?? null;
    if (decided !== null && typeof decided === "object") decided = { ...decided, why: why ?? old?.why ?? "" };
    if (field.startsWith("mode/")) decided = { events: [], role: "", quote: "", note: "", ...decided };
    this.saver.set(field, decided);
    this.said.gold.authors[field] = this.annotator;
    this.#showOne(field);
  }

  #takeAgreed(agreed) {
    const [first] = this.said.annotators;
    for (const [field] of agreed) this.#decide(field, this.said.fields[field][first.name], "all annotators agree");
    this.show();
  }

  // What a `Labelling` has too, so that the page need not know which of the two is open.
  choose() {}
  toggleEvidence() { alertUser("Evidence is chosen among the labels: go back to yours."); }
  quote() { this.toggleEvidence(); }
  setDecisive() { this.toggleEvidence(); }
  async reload() {
    if (this.said && !this.busy && document.activeElement?.tagName !== "TEXTAREA") await this.load();
  }
  get marks() { return { evidence: new Set(), decisive: null, quotes: [] }; }
}
