"""Spans as events: what OpenTelemetry, OpenInference, LangSmith and Langfuse have in common.

A span is a piece of work with a beginning, an end and a span around it. The importers say which
spans are agents, model calls and tools; here they become events in the order in which they began
and ended (a child never begins before the span around it):

- a model call tells what is new of its prompt (see `_telling`), then what the model said;
- a tool is a `tool_call` at its beginning, unless the model call before it shows it already, and a
  `tool_result` at its end;
- an agent, and the run as a whole, tell what they were given and what they returned, unless that
  is known already.

Where an agent's own messages are recorded, only these are its messages: a model's answers within
it that it did not send are `model_call` events. Where what it was given is recorded too, texts that
only the model was shown are kept with them in `data["messages"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecraft.failure_taxonomy.formats._said import Part, Said
from rolecraft.failure_taxonomy.formats._telling import UNNAMED, Telling
from rolecraft.failure_taxonomy.formats._values import values
from rolecraft.failure_taxonomy.formats.base import Source
from rolecraft.trajectories.events import Event, Usage
from rolecraft.trajectories.trajectory import Trajectory

SpanKind = Literal["run", "agent", "model", "tool", "labels", "other"]
RECORDS = ("message", "thought", "model_call", "tool_call", "tool_result", "error")
"""The kinds of event that spans show."""


@dataclass(slots=True, eq=False)
class Span:
    """One span, as an importer has read it. Times are whole numbers of any one unit."""

    id: str
    name: str = ""
    kind: SpanKind = "other"
    parent: str = ""
    agent: str = ""
    """The agent's name, where the span states one."""
    begin: int | None = None
    end: int | None = None
    heard: list[Said] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    tool: Part | None = None
    """Name, id and arguments of a tool; its `text` and `ok` are what came of it."""
    usage: Usage | None = None
    error: str = ""
    """What went wrong: the type, or the text if that is all there is."""
    error_text: str = ""
    described: dict[str, Any] = field(default_factory=dict)
    """What is known of the agent: `model`, `desc`."""
    labels: dict[str, Any] = field(default_factory=dict)
    returns: bool = False
    """True for a tool whose result was recorded."""


@dataclass(slots=True, eq=False)
class _Node:
    span: Span
    children: list[_Node] = field(default_factory=list)
    agent: str = ""
    speaks: _Node | None = None
    """The agent's span around it whose messages are recorded, or itself."""
    given: bool = False
    """True if what it, or a span around it, was given is recorded."""
    begin: int = 0
    first: int = 0
    """Number of the first event since its beginning."""
    call: Event | None = None


def tell_traces(
    source: Source,
    traces: Iterable[tuple[Trajectory, Iterable[Span]]],
    *,
    odd: int,
    what: str,
) -> Iterator[Trajectory]:
    """Fill the trajectories of a file from their spans; without those in which nothing happens.

    A record that is no `what` may be of any trace: each says how many (`odd`) there are. The first
    accounts for them.
    """
    _, flaws = values(source)
    problems = [f"{source.path}: {flaw}" for flaw in flaws]
    if odd:
        problems.append(f"{source.path}: {odd} records are no {what} and were left out")
    for number, (trajectory, spans) in enumerate(traces):
        trajectory.id = trajectory.id or source.path.stem
        trajectory.problems += problems
        tell_spans(trajectory, spans)
        if number == 0:
            trajectory.about["accounting"]["unsegmented"] += odd
            trajectory.about["accounting"]["total"] += odd
        if trajectory.events:
            yield trajectory


def tell_spans(trajectory: Trajectory, spans: Iterable[Span]) -> Trajectory:
    """Fill `trajectory` from its spans, in their logical order."""
    spans = list(spans)
    telling = Telling(trajectory)
    telling.total = len(spans) + sum(
        len(said.parts)
        for span in spans
        if span.kind in ("run", "agent", "model")
        for said in (*span.heard, *span.said)
    )
    trajectory.about["records"] = list(RECORDS)
    labels: dict[str, Any] = trajectory.about.setdefault("labels", {})
    silent = asked = 0
    errors: set[str] = set()
    for at, node in _moments(spans):
        span = node.span
        if at == "begin":
            node.first = len(trajectory.events)
            if span.kind == "run" and span.name:
                trajectory.about.setdefault("workflow", span.name)
            _begins(telling, node)
            continue
        telling.counts[_counted(span)] += 1
        if span.labels:
            labels.setdefault("spans", {})[span.id] = span.labels
        _ends(telling, node)
        if span.kind == "model":
            asked += 1
            silent += not span.said and not span.error
        text = span.error_text or span.error
        if span.error and span.kind not in ("tool", "labels", "other") and text not in errors:
            data = {"type": span.error}
            telling.add("error", node.agent or UNNAMED, span.error_text, data=data)
        errors.add(text)
    if silent:
        trajectory.problems.append(
            f"{silent} of {asked} model calls hold no answer: the program that wrote the spans "
            "did not record contents"
        )
    if not labels:
        del trajectory.about["labels"]
    return telling.finish()


def _counted(span: Span) -> str:
    if span.kind in ("model", "tool"):
        return "events"
    return "labels" if span.kind == "labels" else "header"


# --- order ----------------------------------------------------------------------------------------


def _moments(spans: list[Span]) -> Iterator[tuple[Literal["begin", "end"], _Node]]:
    """Beginnings and ends in order of time, as far as there are times."""
    nodes: dict[str, _Node] = {}
    for number, span in enumerate(spans):
        name = span.id if span.id and span.id not in nodes else f"{span.id}#{number}"
        nodes[name] = _Node(span)
    roots: list[_Node] = []
    top: dict[int, _Node] = {}
    for node in nodes.values():
        parent = nodes.get(node.span.parent)
        if parent is None or _uppermost(parent, top) is node:  # they may claim to be in each other
            roots.append(node)
        else:
            top[id(node)] = parent
            parent.children.append(node)
    moments: list[tuple[int, int, Literal["begin", "end"], _Node]] = []
    timed = all(node.span.begin is not None for node in nodes.values())
    stack: list[tuple[_Node, _Node | None, bool]] = [
        (node, None, False) for node in reversed(_in_order(roots))
    ]
    while stack:
        node, parent, done = stack.pop()
        span = node.span
        if done:
            end = span.end if span.end is not None else node.begin
            latest = max([end, node.begin]) if timed else 0
            moments.append((latest, len(moments), "end", node))
            continue
        _inherit(node, parent)
        begin = span.begin or 0
        node.begin = max(begin, parent.begin if parent is not None else begin) if timed else 0
        moments.append((node.begin, len(moments), "begin", node))
        stack.append((node, parent, True))
        stack += [(child, node, False) for child in reversed(_in_order(node.children))]
    if timed:
        moments = _after_their_children(moments)
    moments.sort(key=lambda moment: moment[:2])
    return ((which, node) for _, _, which, node in moments)


def _uppermost(node: _Node, top: dict[int, _Node]) -> _Node:
    """The node around `node` that has none around it so far.

    `top` has for each node one around it. Each walk makes the way shorter for the next.
    """
    way = []
    while (above := top.get(id(node))) is not None:
        way.append(node)
        node = above
    for passed in way:
        top[id(passed)] = node
    return node


def _in_order(nodes: list[_Node]) -> list[_Node]:
    return sorted(nodes, key=lambda node: node.span.begin or 0)


def _after_their_children(
    moments: list[tuple[int, int, Literal["begin", "end"], _Node]],
) -> list[tuple[int, int, Literal["begin", "end"], _Node]]:
    """A span whose end is unknown, or before its own children's, ends after them."""
    latest: dict[int, int] = {}
    made = []
    for time, number, which, node in moments:
        if which == "end":
            known = [latest.get(id(child), 0) for child in node.children]
            without_end = node.span.end is None
            time = max([time, *(known if without_end else [])])
            latest[id(node)] = time
        made.append((time, number, which, node))
    return made


def _inherit(node: _Node, parent: _Node | None) -> None:
    span = node.span
    node.agent = span.agent or (parent.agent if parent is not None else "")
    around = parent is not None and parent.given
    asked = any(said.side != "system" for said in span.heard)
    node.given = around or (span.kind in ("agent", "run") and asked)
    if span.kind == "agent":
        node.speaks = node if span.said else None
    elif parent is not None:
        node.speaks = parent.speaks


# --- telling --------------------------------------------------------------------------------------


def _begins(telling: Telling, node: _Node) -> None:
    span = node.span
    name = node.agent or UNNAMED
    if span.kind == "run":
        prompts = [said for said in span.heard if said.side == "system"]
        telling.counts["header"] += sum(len(said.parts) for said in prompts)
        telling.tells("", [said for said in span.heard if said.side != "system"])
    elif span.kind == "agent":
        telling.role(name, **span.described)
        telling.tells(name, span.heard, to=(name,))
    elif span.kind == "tool" and span.tool is not None:
        call = telling.find_call(span.tool.id, span.tool.name, open_only=True)
        if call is not None and (span.tool.id or call.data["tool"] == span.tool.name):
            node.call = call
            if not call.data.get("arguments") and span.tool.arguments:
                call.data["arguments"] = span.tool.arguments
        else:
            node.call = telling.call(name, span.tool)


def _ends(telling: Telling, node: _Node) -> None:
    span = node.span
    if span.kind == "model":
        _model(telling, node)
    elif span.kind == "tool" and span.tool is not None:
        if span.returns or span.error:
            ended = Part("result", span.tool.text, name=span.tool.name, id=span.tool.id)
            ended.text = ended.text or span.error_text
            ended.ok = False if span.error else span.tool.ok
            telling.result(node.agent or UNNAMED, ended, node.call)
    elif span.kind in ("agent", "run"):
        _returns(telling, node)


def _model(telling: Telling, node: _Node) -> None:
    span, name = node.span, node.agent or UNNAMED
    data: dict[str, Any] = {}
    if node.speaks is None or not node.given:
        telling.tells(name, span.heard, to=(name,))
    else:
        fresh = telling.hears(name, span.heard)
        prompts = [said for said in fresh if not any(part.id for part in said.parts)]
        for said in fresh:
            if any(part.id for part in said.parts):
                telling.says(name, said)
        telling.counts["events"] += sum(len(said.parts) for said in prompts)
        if prompts:
            data["messages"] = [
                {"role": said.side, "content": part.text} for said in prompts for part in said.parts
            ]
    usage, made = span.usage, 0
    for said in span.said:
        sends = node.speaks is None or _is_sent(said, node.speaks.span)
        kind: Any = "message" if sends else "model_call"
        if telling.answers(name, said, usage=usage, kind=kind, **data):
            usage, data, made = None, {}, made + 1
    if usage is not None or data or not (made or span.error):
        telling.add("model_call", name, usage=usage, data=data)
    if span.described.get("model"):
        telling.role(name, model=span.described["model"])


def _is_sent(said: Said, agent: Span) -> bool:
    sent = {" ".join(part.text.split()) for each in agent.said for part in each.parts}
    return any(" ".join(part.text.split()) in sent for part in said.parts if part.kind == "text")


def _returns(telling: Telling, node: _Node) -> None:
    """What an agent or a run returned, unless it was told on the way."""
    span = node.span
    own = span.kind == "agent"
    for said in span.said:
        if said.side == "system" or (not own and said.side == "user"):
            telling.counts["repeated"] += len(said.parts)
            continue
        name = node.agent or UNNAMED if own else "environment"
        role = said.name or name if own else None
        fresh = [
            part
            for part in said.parts
            if not telling.knows(part.text, since=node.first, role=role)
            and (part.kind != "call" or telling.find_call(part.id, part.name) is None)
        ]
        telling.counts["repeated"] += len(said.parts) - len(fresh)
        if fresh and (own or any(part.text for part in fresh)):
            telling.answers(name, Said("assistant", fresh, said.name, said.to))
        else:
            telling.counts["repeated"] += len(fresh)
