"""A trajectory as a sequence diagram: a lane for each participant, time runs down.

HTML and CSS rather than one drawing, so that long texts wrap, can be selected and searched, and
fold away. Positions are percentages of the width: lane i of n has its line at (i + 0.5) / n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rolecraft.trajectories import FailureFinding, Trajectory
from rolecraft.trajectories.in_words import one_line
from rolecraft.viewer.markup import Markup, element, join
from rolecraft.viewer.reading import Step, findings_by_event, participants, steps

MAX_STEPS = 10_000
"""A page with more is slow in a browser; the page says how many are left out."""
_FOLD = 600
"""Texts longer than this, in characters, fold away behind their beginning."""
_SHORT = 40
"""A run of fewer steps can be read as it is."""
_LONG = 300
"""A run of more steps is shown with its messages only, at first."""
_NARROW = 8
"""So many lanes fit on a page beside each other."""


def sequence_diagram(
    trajectory: Trajectory,
    findings: Iterable[FailureFinding] = (),
    *,
    max_steps: int = MAX_STEPS,
    anchors: bool = False,
) -> Markup:
    """Messages as arrows, everything else as notes on the lane of whoever did it.

    A box to tick leaves only the messages, and what failed. With `anchors`, once on a page, links
    can lead to `#` and `anchor(seq)` of an event.
    """
    everything = steps(trajectory)
    if not everything:
        return element("p", "This trajectory has no events.", class_="quiet")
    failures = findings_by_event(findings)
    shown = [step for step in everything if not step.minor or step.seq in failures]
    lanes = participants(everything) or ["environment"]
    rows: list[Markup] = []
    time = None
    for step in shown[:max_steps]:
        if step.time != time and step.time > 0:
            rows.append(element("li", f"round {step.time}", class_="round"))
        time = step.time
        rows.append(_row(step, lanes, failures.get(step.seq, ()), anchored=anchors))
    more = len(shown) - max_steps
    left_out = f"{more} more events are not drawn; `rolecraft show --events` prints them all."
    names = element("div", *(element("b", lane, title=lane) for lane in lanes), class_="lanes")
    wide = "" if len(lanes) > _NARROW else " narrow"
    return element(
        "div",
        _messages_only(shown[:max_steps]),
        element(
            "div",
            element(
                "div", names, element("ol", *rows), class_="sequence", style=f"--lanes:{len(lanes)}"
            ),
            class_=f"scroll{wide}",
        ),
        element("p", left_out, class_="quiet") if more > 0 else None,
        class_="run",
    )


def anchor(seq: int) -> str:
    """The id of an event on a page with `anchors`."""
    return f"event-{seq}"


def _messages_only(shown: Sequence[Step]) -> Markup | None:
    """A box to tick, unless the run is short or there is nothing that it would leave out."""
    messages = sum(step.kind == "message" for step in shown)
    if len(shown) <= _SHORT or messages in (0, len(shown)):
        return None
    text = f" only the {messages:,} messages of {len(shown):,} steps, and what failed"
    box = element("input", type="checkbox", checked=len(shown) > _LONG)
    return element("label", box, text, class_="only")


def _row(
    step: Step, lanes: Sequence[str], failures: Sequence[FailureFinding], *, anchored: bool
) -> Markup:
    marks = join(element("mark", failure.mode, title=failure.reason) for failure in failures)
    receivers = [lanes.index(name) for name in step.receivers]
    if step.kind == "message" and receivers and step.role in lanes:
        body = _arrow(lanes.index(step.role), receivers, len(lanes), _text(step.text), marks)
    else:
        body = _note(step, lanes, marks)
    return element(
        "li",
        element("span", f"{step.seq}", class_="seq"),
        body,
        id=anchor(step.seq) if anchored else None,
        class_=f"failed {step.kind}" if failures else step.kind,
    )


def _arrow(sender: int, receivers: list[int], lanes: int, text: Markup, marks: Markup) -> Markup:
    """A line from the sender over the receivers, a head at each of them, the text above it."""
    low, high = min(sender, *receivers), max(sender, *receivers)
    heads = [
        element("i", class_="right" if lane > sender else "left", style=f"left:{_at(lane, lanes)}")
        for lane in receivers
    ]
    shaft = element("u", style=f"left:{_at(low, lanes)};width:{(high - low) / lanes * 100:.3f}%")
    around = _box(low / lanes, (high + 1) / lanes)
    return element(
        "div",
        element("div", text, marks, class_="says", style=around),
        element("div", shaft, *heads, class_="arrow", aria_hidden="true"),
    )


def _note(step: Step, lanes: Sequence[str], marks: Markup) -> Markup:
    label = element("em", step.label)
    # What a model answered is mostly said again, in the message that follows.
    text = _text(step.text, fold=80 if step.kind == "model_call" else _FOLD)
    box = element("div", label, *((" ", text) if step.text else ()), marks, class_="box")
    if step.role not in lanes:
        return element("div", box, class_="note wide")
    centre = (lanes.index(step.role) + 0.5) / len(lanes)
    reach = min(centre, 1 - centre, 1 / len(lanes))
    return element("div", box, class_="note", style=_box(centre - reach, centre + reach))


def _text(text: str, *, fold: int = _FOLD) -> Markup:
    """The text as it is, line breaks included; a long one folds away behind its beginning."""
    if len(text) <= fold:
        return element("span", text, class_="text block" if "\n" in text else "text")
    return element(
        "details",
        element("summary", f"{one_line(text, 100)} ({len(text):,} characters)"),
        element("span", text, class_="text"),
    )


def _at(lane: int, lanes: int) -> str:
    return f"{(lane + 0.5) / lanes * 100:.3f}%"


def _box(left: float, right: float) -> str:
    """From `left` to `right`, shares of the width."""
    return f"margin-left:{left * 100:.3f}%;width:{(right - left) * 100:.3f}%"
