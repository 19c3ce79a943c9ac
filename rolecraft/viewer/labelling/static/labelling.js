// The form of one annotator for one trace: every mode, the decisive step, the outcome, a note.

import { get, post } from "./api.js";
import { Card, cut } from "./card.js";
import { alertUser, count, el, fill } from "./dom.js";
import { Saver } from "./saving.js";

export class Labelling {
  /** `on`: `marks()`, `status(kind, text)`, `goTo(seq)`, `compare()`, `next()`. */
  constructor({ annotator, trace, modes, names, suggestions }, sheet, on) {
    Object.assign(this, { annotator, trace, modes, names, on, hasSuggestions: suggestions, suggested: null });
    this.about = { annotator, trace };
    this.cards = modes.map((mode, at) => new Card(mode, at, names, {
      choose: () => this.choose(at),
      change: (value, options) => this.#set(`mode/${mode.id}`, value, options),
      goTo: on.goTo,
    }));
    this.at = 0;
    this.top = el("div", { class: "panel-top" });
    this.rest = el("div", { class: "rest" });
    this.foot = el("div", { class: "panel-foot" });
    this.node = el("section", { class: "panel", "aria-label": "Labels" }, this.top,
      el("div", { class: "cards" }, this.#grouped()), this.rest, this.foot);
    this.#take(sheet);
  }

  #grouped() {
    const nodes = [];
    this.modes.forEach((mode, at) => {
      if (mode.category !== this.modes[at - 1]?.category) nodes.push(el("h3", {}, mode.category));
      nodes.push(this.cards[at].node);
    });
    return nodes;
  }

  // --- state ------------------------------------------------------------------------------------

  #take(sheet) {
    this.sheet = sheet;
    this.saver = new Saver("edit", { ...this.about, in_round: sheet.round }, sheet.values, sheet.revs, {
      status: this.on.status,
      saved: (field, answer) => this.#saved(answer),
      conflict: (field, mine, now) => this.#conflict(field, mine, now),
      refused: (field, error) => {
        alertUser(error.message);
        this.reload();
      },
    });
    this.unfinished = sheet.unfinished;
    this.show();
  }

  get locked() {
    return this.sheet.done || this.sheet.revealed;
  }

  /** What the server has now: another tab may have written. */
  async reload({ quietly = false } = {}) {
    if (quietly && this.saver.busy) return;
    try {
      const sheet = await get("sheet", this.about);
      if (quietly && this.saver.busy) return;
      if (!quietly || JSON.stringify([sheet.revs, sheet.done, sheet.round]) !== JSON.stringify([this.saver.revs, this.sheet.done, this.sheet.round])) this.#take(sheet);
    } catch (error) {
      if (!quietly) alertUser(error.message);
    }
  }

  #set(field, value, options) {
    this.saver.set(field, value, options);
    this.#showCounts();
    this.on.marks();
  }

  #saved(answer) {
    this.unfinished = answer.unfinished;
    for (const card of this.cards) card.setProblem(this.unfinished[card.mode.id] ?? "");
    this.#showCounts();
  }

  #conflict(field, mine, now) {
    const settle = (value) => {
      line.remove();
      this.saver.settle(field, value);
      this.show();
    };
    const name = field.replace("mode/", "");
    const line = alertUser(
      `“${name}” was changed in another window. There it is ${inWords(now.value)}; here it is ${inWords(mine)}. Both are kept in the file; which one holds?`,
      el("button", { type: "button", onclick: () => settle(this.saver.values[field]) }, "This window's"),
      el("button", { type: "button", onclick: () => settle(now.value) }, "The other's"));
    line.classList.add("conflict");
  }

  // --- choosing ---------------------------------------------------------------------------------

  get card() {
    return this.cards[this.at];
  }

  choose(at) {
    if (at < 0 || at >= this.cards.length) return;
    const before = this.at;
    this.at = at;
    if (before !== at) {
      this.cards[before].shown = false;
      this.#showCard(before);
    }
    if (before !== at || !this.card.chosen) this.#showCard(at);
    this.card.node.scrollIntoView({ block: "nearest" });
    this.on.marks();
  }

  toggleEvidence(row) {
    this.card.toggleEvent(row);
  }

  quote(row, text) {
    this.card.quote(row, text);
  }

  setDecisive(row) {
    if (this.locked) return;
    const now = this.saver.values.decisive;
    this.#set("decisive", now?.step === row.seq ? null : { role: row.role, step: row.seq });
    this.#showRest();
  }

  get marks() {
    const value = this.saver.values[`mode/${this.card.mode.id}`];
    const present = value?.verdict === "present" ? value : null;
    return {
      evidence: new Set(present?.events ?? []),
      decisive: this.saver.values.decisive?.step ?? null,
      quotes: present?.quote ? [{ events: present.events, text: present.quote }] : [],
    };
  }

  // --- showing ----------------------------------------------------------------------------------

  show() {
    this.cards.forEach((_, at) => this.#showCard(at));
    this.#showTop();
    this.#showRest();
    this.#showCounts();
    this.on.status(this.saver.busy ? "busy" : "ok", this.saver.busy ? "Saving…" : "All saved");
    this.on.marks();
  }

  #showCard(at) {
    const { id } = this.modes[at];
    this.cards[at].update({
      value: this.saver.values[`mode/${id}`],
      locked: this.locked,
      chosen: at === this.at,
      problem: this.unfinished[id] ?? "",
      extra: this.#suggestionsOf(id, this.cards[at]),
    });
  }

  #suggestionsOf(mode, card) {
    return (this.suggested ?? []).filter((one) => one.mode === mode && one.verdict !== "unknown").map((one) => el("div", { class: "suggestion" },
      el("span", {}, el("b", {}, one.source || one.by), ` says ${one.verdict}`, one.role && ` by ${one.role}`, one.events && ", events ",
        (one.events ?? []).map((seq) => el("button", { type: "button", class: "link", onclick: () => this.on.goTo(seq) }, `#${seq} `)),
        one.quote && el("q", { title: one.quote }, cut(one.quote, 120)), one.reason && ` (${one.reason})`),
      !this.locked && el("button", { type: "button", onclick: () => card.take({ verdict: one.verdict, events: one.events ?? [], role: one.role ?? "", quote: one.quote ?? "" }) }, "Take over")));
  }

  #showTop() {
    const { round, done, revealed, saw } = this.sheet;
    const state = done ? "finished" : revealed ? "closed: others' labels were seen before it was finished" : round === 1 ? "blind" : "after discussion";
    fill(this.top,
      el("p", {}, el("b", {}, `Round ${round}`), ` · ${state}`, saw.length > 0 && ` · suggestions seen (${saw.join(", ")})`),
      this.hasSuggestions && !this.suggested && !this.locked && el("button", { type: "button", class: "suggest", title: "It is stored that you saw them", onclick: () => this.#suggest() }, "Show suggestions (recorded)"));
  }

  async #suggest() {
    try {
      this.suggested = await post("suggest", this.about);
      const sheet = await get("sheet", this.about);
      this.sheet.saw = sheet.saw;
      this.show();
      if (!this.suggested.some((one) => one.verdict !== "unknown")) alertUser("The suggestions say “unknown” of every mode.");
    } catch (error) {
      alertUser(error.message);
    }
  }

  #showRest() {
    if (this.rest.contains(document.activeElement) && document.activeElement.tagName === "TEXTAREA") return;
    const { decisive, outcome, note } = this.saver.values;
    const locked = this.locked;
    const names = [...new Set(["", ...this.names, decisive?.role ?? ""])];
    const role = el("select", { disabled: locked, "aria-label": "Role of the decisive step" }, names.map((name) => el("option", { value: name }, name || "(nobody)")));
    role.value = decisive?.role ?? "";
    const step = el("input", { type: "number", min: "0", disabled: locked, value: decisive?.step ?? "", "aria-label": "Number of the decisive event" });
    const changed = () => {
      const number = step.value === "" ? null : Number(step.value);
      if (number !== null && (!Number.isInteger(number) || number < 0)) return;
      this.#set("decisive", role.value === "" && number === null ? null : { role: role.value, step: number });
    };
    role.addEventListener("change", changed);
    step.addEventListener("input", changed);
    const choice = (value, text) => el("button", {
      type: "button", class: "verdict", "aria-pressed": (outcome ?? null) === value, disabled: locked,
      onclick: () => {
        this.#set("outcome", value);
        this.#showRest();
      },
    }, text);
    const words = el("textarea", { rows: "3", disabled: locked, value: note ?? "", placeholder: "Anything else about this trace" });
    words.addEventListener("input", () => this.#set("note", words.value, { typing: true }));
    fill(this.rest,
      el("h3", {}, "The whole trace"),
      el("div", { class: "field" }, el("span", { class: "term" }, "Decisive step"),
        el("span", { class: "decisive-of" }, el("span", {}, "#"), step, role,
          decisive?.step !== null && decisive?.step !== undefined && el("button", { type: "button", class: "link", onclick: () => this.on.goTo(decisive.step) }, "Go there")),
        el("span", { class: "quiet hint" }, "The first mistake from which the run did not recover. Press “Decisive” at the event, or d.")),
      el("div", { class: "field" }, el("span", { class: "term" }, "Task"),
        el("span", { class: "verdicts", role: "group", "aria-label": "Was the task done?" }, choice(true, "done"), choice(false, "not done"), choice(null, "not said"))),
      el("label", { class: "field" }, el("span", { class: "term" }, "Note"), words));
  }

  #showCounts() {
    const open = this.modes.filter((mode) => !this.saver.values[`mode/${mode.id}`]?.verdict);
    const flawed = this.modes.filter((mode) => this.saver.values[`mode/${mode.id}`]?.verdict === "present" && this.unfinished[mode.id]);
    const go = (mode) => el("button", { type: "button", class: "link", onclick: () => this.choose(this.modes.indexOf(mode)) }, mode.name);
    if (this.locked) {
      fill(this.foot,
        el("p", {}, this.sheet.done ? `Round ${this.sheet.round} is finished.` : `Round ${this.sheet.round} is closed.`),
        el("div", { class: "buttons" },
          el("button", { type: "button", class: "main", onclick: () => this.on.compare() }, "Compare with others"),
          el("button", { type: "button", onclick: () => this.on.next() }, "Next trace"),
          this.sheet.done && !this.sheet.revealed && el("button", { type: "button", onclick: () => this.#ask("reopen") }, "Reopen"),
          this.sheet.looked && el("button", { type: "button", onclick: () => this.#ask("begin") }, `Begin round ${this.sheet.round + 1}`)));
      return;
    }
    fill(this.foot,
      el("button", { type: "button", class: "link compare", onclick: () => this.on.compare() }, "Compare"),
      el("p", {}, `${this.modes.length - open.length} of ${count(this.modes.length, "mode")} labelled`,
        flawed.length > 0 && [" · evidence is missing for ", flawed.map((mode, at) => [at > 0 && ", ", go(mode)])].flat(3)),
      el("div", { class: "buttons" },
        el("button", { type: "button", class: "main finish", disabled: open.length + flawed.length > 0, onclick: () => this.#ask("finish") }, `Finish round ${this.sheet.round}`),
        open.length > 0 && open.length < this.modes.length && el("button", { type: "button", class: "rest-absent", onclick: () => this.#restAbsent(open) }, `Label the other ${open.length} absent`)));
  }

  #restAbsent(open) {
    for (const mode of open) this.cards[this.modes.indexOf(mode)].take({ verdict: "absent" });
  }

  async #ask(what) {
    try {
      this.saver.flush();
      while (this.saver.underWay.size) await new Promise((done) => setTimeout(done, 20));
      if (this.saver.busy) return alertUser("Something is not saved yet; see above.");
      this.#take(await post(what, this.about));
    } catch (error) {
      alertUser(error.message);
    }
    return undefined;
  }
}

/** A value in a few words, for a conflict. */
export function inWords(value) {
  if (value === null || value === undefined || value === "") return "empty";
  if (value === true) return "“done”";
  if (value === false) return "“not done”";
  if (typeof value === "string") return `“${value}”`;
  if ("verdict" in value) {
    const parts = [value.verdict ?? "no verdict"];
    if (value.verdict === "present") parts.push(`events ${value.events.join(", ") || "none"}`, value.role || "nobody", value.quote ? `“${value.quote}”` : "no quote");
    if (value.note) parts.push(`note “${value.note}”`);
    if (value.why) parts.push(`why “${value.why}”`);
    return `“${parts.join("; ")}”`;
  }
  return `“${value.role || "nobody"} at ${value.step ?? "no event"}”`;
}
