// Saving as it is typed. Each field has at most one request under way; what is typed meanwhile
// goes with the next. Nothing is dropped: what cannot be sent is tried again, and a conflict with
// another tab is put before the annotator.

import { post } from "./api.js";

const AFTER_TYPING = 400; // milliseconds without a key before a text is sent
const RETRY = 2000;

export class Saver {
  /** `send`: name of the request. `about`: what goes with every edit. `on`: `status`, `saved`, `conflict`, `refused`. */
  constructor(send, about, values, revs, on) {
    Object.assign(this, { send, about, on });
    this.values = { ...values };
    this.revs = { ...revs };
    this.tab = crypto.randomUUID(); // this window never contradicts itself
    this.turn = 0;
    this.waiting = new Map(); // field -> timer
    this.underWay = new Set();
    this.conflicts = new Map(); // field -> the edit that holds
    this.unreachable = false;
  }

  get busy() {
    return this.waiting.size > 0 || this.underWay.size > 0 || this.conflicts.size > 0;
  }

  set(field, value, { typing = false } = {}) {
    this.values[field] = value;
    this.#wait(field, typing ? AFTER_TYPING : 0);
  }

  /** Send everything at once: the page is about to go away. */
  flush() {
    for (const [field, timer] of this.waiting) {
      clearTimeout(timer);
      this.waiting.delete(field);
      this.#send(field, true);
    }
  }

  /** The annotator has said which of two values holds. */
  settle(field, value) {
    const now = this.conflicts.get(field);
    this.conflicts.delete(field);
    this.revs[field] = now.rev;
    this.values[field] = value;
    if (value === now.value) this.#tell();
    else this.#wait(field, 0);
  }

  #wait(field, time) {
    clearTimeout(this.waiting.get(field));
    this.waiting.set(field, setTimeout(() => {
      this.waiting.delete(field);
      this.#send(field);
    }, time));
    this.#tell();
  }

  async #send(field, keepalive = false) {
    if (this.conflicts.has(field)) return; // first say which holds
    if (this.underWay.has(field) && !keepalive) return this.#wait(field, 50);
    this.underWay.add(field);
    const value = this.values[field];
    try {
      const answer = await post(this.send, { ...this.about, field, value, base: this.revs[field] ?? 0, tab: this.tab, turn: (this.turn += 1) }, { keepalive });
      this.revs[field] = answer.rev;
      this.unreachable = false;
      this.on.saved(field, answer);
    } catch (error) {
      if (error.status === 409) {
        this.conflicts.set(field, error.answer.now);
        this.on.conflict(field, value, error.answer.now);
      } else if (error.status === 0 || error.status >= 500) {
        this.unreachable = error.message;
        if (!this.waiting.has(field)) this.#wait(field, RETRY);
      } else {
        this.on.refused(field, error);
      }
    } finally {
      this.underWay.delete(field);
      this.#tell();
    }
  }

  #tell() {
    if (this.unreachable) this.on.status("error", `Not saved. ${this.unreachable}`);
    else if (this.conflicts.size) this.on.status("error", "Not saved: changed elsewhere");
    else if (this.busy) this.on.status("busy", "Saving…");
    else this.on.status("ok", "All saved");
  }
}
