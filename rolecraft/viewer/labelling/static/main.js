// The page: which view is shown, the line above it, and the keys.

import { agreement, exporting } from "./agreement.js";
import { get } from "./api.js";
import { Comparing } from "./comparing.js";
import { alertUser, el, fill } from "./dom.js";
import { helpText, KEYS } from "./keys.js";
import { Labelling } from "./labelling.js";
import { Reader } from "./reader.js";
import { start } from "./start.js";

const view = document.getElementById("view");
const top = document.getElementById("top");
const help = document.getElementById("help");
const NAME = "annotator"; // of this tab: two people may label in two tabs

const page = { annotator: sessionStorage.getItem(NAME) ?? "", project: null, reader: null, panel: null, opened: null, status: null };
const unsaved = new Set(); // savers of traces that were left before all was saved

/** Names without the folder that all have in common. */
function shorten(project) {
  const folders = project.traces.map(({ name }) => name.replace(/#.*/s, "").split("/").slice(0, -1));
  let same = 0;
  while (folders.length && same < folders[0].length && folders.every((folder) => folder[same] === folders[0][same])) same += 1;
  if (same === 1 && folders[0][0] === "") same = 0; // the root is no folder to speak of
  project.common = folders.length ? folders[0].slice(0, same).join("/") : "";
  for (const trace of project.traces) trace.short = trace.name.split("/").slice(same).join("/");
}

// --- going places -------------------------------------------------------------------------------

function go(hash) {
  if (location.hash === hash) show();
  else location.hash = hash;
}

async function show() {
  const [, where = "", key = ""] = location.hash.split("/");
  await leave();
  try {
    page.project = await get("project", { annotator: page.annotator });
  } catch (error) {
    return alertUser(error.message);
  }
  if (page.annotator && !page.project.known) page.annotator = "";
  shorten(page.project);
  const known = page.project.traces.some((trace) => trace.key === key);
  document.title = "Labelling";
  view.className = "";
  if (!page.annotator || where === "" || ((where === "trace" || where === "compare") && !known)) {
    start(view, page.project, page.annotator, {
      joined: (who) => {
        page.annotator = who;
        sessionStorage.setItem(NAME, who);
        show();
      },
      open: (trace) => go(`#/trace/${trace}`),
    });
  } else if (where === "agreement") await agreement(view, page.annotator, { compare: (trace) => go(`#/compare/${trace}`) });
  else if (where === "export") await exporting(view, page.annotator);
  else await open(key, where);
  showTop(where, key);
  return undefined;
}

async function leave() {
  const saver = page.panel?.saver;
  saver?.flush();
  for (let turn = 0; saver?.underWay.size && turn < 100; turn += 1) await new Promise((done) => setTimeout(done, 20));
  if (!/^#\/(trace|compare)\//.test(location.hash) || !location.hash.endsWith(`/${page.opened}`)) {
    page.reader?.close();
    page.reader = page.opened = null;
  }
  if (saver?.busy) unsaved.add(saver); // goes on trying; the page says so before it is closed
  page.panel = null;
}

async function open(key, where) {
  const trace = page.project.traces.find((one) => one.key === key);
  let fresh = true;
  try {
    fresh = page.opened !== key;
    if (fresh) {
      page.reader = new Reader(key, await get("trace", { trace: key }), {
        evidence: (row) => page.panel.toggleEvidence(row),
        decisive: (row) => page.panel.setDecisive(row),
        quote: (row, text) => page.panel.quote(row, text),
      });
      page.opened = key;
    }
    const on = {
      status,
      marks: () => page.panel && page.reader?.mark(page.panel.marks),
      goTo: (seq) => {
        showSide("reader");
        page.reader.goTo(seq);
      },
      compare: () => go(`#/compare/${key}`),
      label: () => go(`#/trace/${key}`),
      next: () => neighbour(1),
    };
    const about = { annotator: page.annotator, trace: key, modes: page.project.modes, names: page.reader.index.names, suggestions: trace.suggestions };
    page.panel = where === "compare" ? new Comparing(about, on) : new Labelling(about, await get("sheet", { annotator: page.annotator, trace: key }), on);
  } catch (error) {
    return alertUser(error.message);
  }
  document.title = `${trace.name} · Labelling`;
  view.className = "split";
  const side = (name, text) => el("button", { type: "button", data: { side: name }, onclick: () => showSide(name) }, text);
  fill(view, el("nav", { class: "sides", "aria-label": "Trace or labels" }, side("reader", "Trace"), side("panel", "Labels")), page.reader.node, page.panel.node);
  showSide(view.dataset.side ?? "reader");
  page.reader.mark(page.panel.marks);
  page.reader.select(page.reader.current, { scroll: !fresh }); // at first the task is seen
  return undefined;
}

/** On a narrow window the trace or the labels are seen, not both. */
function showSide(name) {
  view.dataset.side = name;
  for (const button of view.querySelectorAll(".sides button")) button.setAttribute("aria-pressed", button.dataset.side === name);
}

// --- the line above -----------------------------------------------------------------------------

function status(kind, text) {
  page.status = [kind, text];
  const line = top.querySelector(".status");
  if (!line) return;
  line.dataset.kind = kind;
  line.textContent = text;
}

function showTop(where, key) {
  if (!page.annotator) return fill(top);
  const link = (hash, text, here) => el("a", { href: hash, "aria-current": here ? "page" : null }, text);
  const reading = page.opened !== null;
  fill(top,
    link("#/", "Traces", where === ""),
    reading && el("span", { class: "where" },
      el("button", { type: "button", title: "Previous trace ([)", "aria-label": "Previous trace", onclick: () => neighbour(-1) }, "‹"),
      el("b", { title: name(key) }, base(name(key))),
      el("button", { type: "button", title: "Next trace (])", "aria-label": "Next trace", onclick: () => neighbour(1) }, "›")),
    el("span", { class: "gap" }),
    reading && el("span", { class: "status", "aria-live": "polite" }),
    link("#/agreement", "Agreement", where === "agreement"),
    link("#/export", "Export", where === "export"),
    el("button", { type: "button", class: "quiet", onclick: () => help.showModal() }, "Keys  ?"),
    el("button", { type: "button", class: "quiet", title: "Somebody else labels in this tab", onclick: change }, page.annotator));
  if (page.status) status(...page.status);
  return undefined;
}

function base(path) {
  const [file, ...id] = path.split("#");
  return [file.split("/").at(-1), ...id].join("#");
}

function name(key) {
  return page.project.traces.find((trace) => trace.key === key)?.name ?? "";
}

function neighbour(way) {
  const at = page.project.traces.findIndex((trace) => trace.key === page.opened);
  const next = page.project.traces[at + way];
  go(next ? `#/trace/${next.key}` : "#/");
}

async function change() {
  await leave();
  sessionStorage.removeItem(NAME);
  page.annotator = "";
  go("#/");
}

// --- keys, tabs, leaving ------------------------------------------------------------------------

const deeds = {
  next: () => page.reader.step(1),
  previous: () => page.reader.step(-1),
  jump: () => page.reader.jump.focus(),
  search: () => page.reader.search.focus(),
  found: (event) => page.reader.nextMatch(event.shiftKey ? -1 : 1),
  mode: (event) => page.panel.choose(((Number(event.code.slice(5)) + 9) % 10) + (event.shiftKey ? 10 : 0)),
  nextMode: (event) => page.panel.choose(page.panel.at + (event.shiftKey ? -1 : 1)),
  present: () => page.panel.card?.setVerdict("present"),
  absent: () => page.panel.card?.setVerdict("absent"),
  unknown: () => page.panel.card?.setVerdict("unknown"),
  evidence: () => page.reader.currentRow && page.panel.toggleEvidence(page.reader.currentRow),
  quote: () => page.reader.quoteSelection(),
  decisive: () => page.reader.currentRow && page.panel.setDecisive(page.reader.currentRow),
  nextTrace: () => neighbour(1),
  previousTrace: () => neighbour(-1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || help.open) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "?") {
    event.preventDefault();
    help.showModal();
    return;
  }
  if (!page.panel || !page.reader) return;
  const key = KEYS.find((one) => (one.digit ? /^Digit\d$/.test(event.code) : one.keys.includes(event.key)));
  if (!key) return;
  event.preventDefault();
  deeds[key.does](event);
});

help.append(helpText(() => help.close()));
addEventListener("hashchange", show);
addEventListener("pagehide", () => page.panel?.saver?.flush());
addEventListener("beforeunload", (event) => {
  page.panel?.saver?.flush();
  const stuck = (saver) => saver?.conflicts.size > 0 || (saver?.unreachable && saver.busy);
  if (stuck(page.panel?.saver) || [...unsaved].some(stuck)) event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") page.panel?.saver?.flush();
  else page.panel?.reload({ quietly: true });
});
addEventListener("focus", () => page.panel?.reload({ quietly: true }));

show();
