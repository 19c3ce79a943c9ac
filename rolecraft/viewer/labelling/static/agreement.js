// How much the annotators agree, over all traces that one of them has compared; and the export.

import { get } from "./api.js";
import { alertUser, count, el, fill } from "./dom.js";

export async function agreement(view, annotator, on) {
  let said;
  try {
    said = await get("compare", { annotator });
  } catch (error) {
    return alertUser(error.message);
  }
  return fill(view, el("div", { class: "page" },
    el("h1", {}, "Agreement"),
    el("p", { class: "quiet" }, "Only traces that at least two people have finished, and whose comparison you have opened, are counted here. Report the agreement of round 1: it is the blind one."),
    said.rounds.length ? said.rounds.map(round) : el("p", {}, "No such trace yet."),
    said.traces.length > 0 && [el("h2", {}, "Disagreements"),
      el("div", { class: "scroll" }, el("table", {},
        el("thead", {}, el("tr", {}, ["Trace", "Annotators", "They disagree on", "Decided"].map((head) => el("th", {}, head)))),
        el("tbody", {}, said.traces.map((trace) => el("tr", {},
          el("td", {}, el("a", { href: `#/compare/${trace.key}`, onclick: (event) => {
            event.preventDefault();
            on.compare(trace.key);
          } }, trace.name)),
          el("td", {}, trace.annotators.join(", ")),
          el("td", {}, trace.disagreements.map((field) => field.replace("mode/", "")).join(", ") || "nothing"),
          el("td", {}, `${trace.decided} of ${trace.points}`))))))]));
}

function round({ round: number, traces, annotators, method, pooled, rows }) {
  return el("section", {},
    el("h2", {}, `Round ${number}${number === 1 ? ", blind" : ", after discussion"}`),
    el("p", {}, `${count(traces, "trace")}, ${annotators.join(", ")}; ${method}`, pooled !== null && [", over all modes together ", el("b", {}, pooled.toFixed(2))], "."),
    el("div", { class: "scroll" }, el("table", { class: "kappas" },
      el("thead", {}, el("tr", {}, ["Mode", "Present, by annotator", "Same verdict", "Kappa"].map((head, at) => el("th", { class: at ? "num" : "" }, head)))),
      el("tbody", {}, rows.map((row) => el("tr", {},
        el("td", {}, row.mode),
        el("td", { class: "num" }, annotators.map((who) => row.present[who]).join(" / ")),
        el("td", { class: "num" }, `${row.same} of ${row.traces}`),
        el("td", { class: "num", title: row.kappa === null ? "not defined: both always say the same" : null }, row.kappa === null ? "–" : row.kappa.toFixed(2))))))));
}

export async function exporting(view, annotator) {
  let files;
  try {
    files = await get("exports", { annotator });
  } catch (error) {
    return alertUser(error.message);
  }
  return fill(view, el("div", { class: "page narrow" },
    el("h1", {}, "Export"),
    el("p", {}, "Finished rounds only, and of others the traces that you have compared; ", el("code", {}, "rolecraft label … --export"), " writes everybody's. The ", el("code", {}, ".jsonl"), " files are labels as ", el("code", {}, "rolecraft agreement"), " reads them; ", el("code", {}, "labels.csv"), " has a row for each trace and annotator and a column for each mode."),
    el("ul", { class: "exports" }, files.map((file) => el("li", {},
      el("a", { href: `/export/${encodeURIComponent(file.name)}?${new URLSearchParams({ annotator })}`, download: file.name }, file.name),
      el("span", { class: "quiet" }, ` ${count(file.lines, "row")}`))))));
}
