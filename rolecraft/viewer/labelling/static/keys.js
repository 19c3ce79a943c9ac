// The keys, for the page and for its help.

import { el } from "./dom.js";

export const KEYS = [
  { keys: ["j"], shown: "j", does: "next", text: "next event" },
  { keys: ["k"], shown: "k", does: "previous", text: "previous event" },
  { keys: ["g"], shown: "g", does: "jump", text: "go to an event by its number" },
  { keys: ["/"], shown: "/", does: "search", text: "search the trace; Enter and Shift+Enter: next and previous" },
  { keys: ["f", "F"], shown: "f  F", does: "found", text: "next, previous event that was found" },
  { digit: true, keys: [], shown: "1 … 9, 0", does: "mode", text: "choose a mode; with Shift the eleventh and on" },
  { keys: ["m", "M"], shown: "m  M", does: "nextMode", text: "next, previous mode" },
  { keys: ["y"], shown: "y", does: "present", text: "the mode is present" },
  { keys: ["n"], shown: "n", does: "absent", text: "the mode is absent" },
  { keys: ["u"], shown: "u", does: "unknown", text: "it cannot be told" },
  { keys: ["e"], shown: "e", does: "evidence", text: "the event is evidence, or is not" },
  { keys: ["q"], shown: "q", does: "quote", text: "quote the selected words" },
  { keys: ["d"], shown: "d", does: "decisive", text: "the event is the decisive step, or is not" },
  { keys: ["]"], shown: "]", does: "nextTrace", text: "next trace" },
  { keys: ["["], shown: "[", does: "previousTrace", text: "previous trace" },
];

export function helpText(close) {
  return el("div", {},
    el("h2", {}, "Keys"),
    el("dl", { class: "keys" }, KEYS.map((key) => [el("dt", {}, el("kbd", {}, key.shown)), el("dd", {}, key.text)]).flat()),
    el("p", { class: "quiet" }, "Escape leaves a field. A verdict chosen again is taken back."),
    el("button", { type: "button", class: "main", onclick: close }, "Close"));
}
