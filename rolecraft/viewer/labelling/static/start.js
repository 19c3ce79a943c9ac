// The first page: who are you, and which trace.

import { post } from "./api.js";
import { alertUser, count, el, fill } from "./dom.js";

export function start(view, project, annotator, on) {
  fill(view, annotator ? traces(project, annotator, on) : name(project, on));
}

function name(project, on) {
  const field = el("input", { type: "text", name: "annotator", maxlength: "60", autocomplete: "off", required: true, "aria-label": "Your name" });
  const begin = async (who) => {
    try {
      on.joined((await post("join", { name: who })).annotator);
    } catch (error) {
      alertUser(error.message);
    }
  };
  const form = el("form", { class: "join", onsubmit: (event) => {
    event.preventDefault();
    begin(field.value);
  } }, field, el("button", { class: "main" }, "Begin"));
  return el("div", { class: "page narrow" },
    el("h1", {}, "Label failures"),
    el("p", {}, `${count(project.traces.length, "trace")} to read. For each you say which of ${project.modes.length} failure modes occur in it, where, and through whom.`),
    el("h2", {}, "Who are you?"), form,
    el("p", { class: "quiet" }, "Everyone labels under a name of their own and does not see what others say before they have finished a trace."),
    project.annotators.length > 0 && el("p", {}, "Or go on as ", project.annotators.map((who) => [
      el("button", { type: "button", onclick: () => begin(who) }, who), " "]).flat()));
}

function traces(project, annotator, on) {
  const done = project.traces.filter((trace) => trace.done || trace.looked).length;
  const filter = el("input", { type: "search", placeholder: "Find a trace", "aria-label": "Find a trace" });
  const body = el("tbody");
  const show = () => fill(body, project.traces
    .filter((trace) => trace.name.toLowerCase().includes(filter.value.toLowerCase()))
    .map((trace) => row(trace, project, on)));
  filter.addEventListener("input", show);
  show();
  const next = project.traces.find((trace) => !trace.done && !trace.looked);
  return el("div", { class: "page" },
    el("h1", {}, `Traces of ${annotator}`),
    el("p", {}, `${done} of ${count(project.traces.length, "trace")} finished. Labels are kept in `, el("code", {}, project.folder), project.common && [", the traces are in ", el("code", {}, project.common)], "."),
    (project.strays.length > 0 || project.problems.length > 0) && el("details", { class: "problems" },
      el("summary", {}, project.strays.length > 0
        ? `${count(project.strays.length, "labelled trace")} of this folder ${project.strays.length === 1 ? "is" : "are"} not open here, or changed since`
        : `${count(project.problems.length, "line")} of the folder's files could not be read`),
      [...project.strays, ...project.problems].map((line) => el("p", {}, line))),
    el("div", { class: "buttons" },
      next && el("button", { type: "button", class: "main", onclick: () => on.open(next.key) }, done ? "Go on" : "Begin with the first"),
      project.traces.length > 10 && filter),
    el("div", { class: "scroll" }, el("table", { class: "traces" },
      el("thead", {}, el("tr", {}, ["Trace", "Events", "Yours", "Finished by"].map((head, at) => el("th", { class: at === 1 || at === 3 ? "num" : "" }, head)))),
      body)));
}

function row(trace, project, on) {
  const state = trace.done ? `round ${trace.round} finished`
    : trace.round > 1 ? `round ${trace.round}: ${trace.answered} of ${project.modes.length}`
    : trace.looked ? "closed, looked at others'"
    : trace.answered ? `${trace.answered} of ${project.modes.length}` : "";
  return el("tr", { class: trace.done ? "done" : "" },
    el("td", {}, el("a", { href: `#/trace/${trace.key}`, onclick: (event) => {
      event.preventDefault();
      on.open(trace.key);
    }, title: trace.name }, trace.short)),
    el("td", { class: "num" }, trace.events.toLocaleString("en")),
    el("td", {}, state),
    el("td", { class: "num" }, trace.finished_by ? String(trace.finished_by) : ""));
}
