"""Reports: self-contained pages from which nothing of a trajectory can break out."""

from __future__ import annotations

import re
import string
from importlib import resources

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.trajectories import (
    Event,
    FailureFinding,
    Signal,
    Timing,
    Trajectory,
    Usage,
    signal_event,
)
from rolecraft.trajectories.events import EVENT_KINDS, Artifact
from rolecraft.viewer.markup import escape
from rolecraft.viewer.page import write_page
from rolecraft.viewer.reading import steps
from rolecraft.viewer.report import Example, TrainingReport, training_page, trajectory_page

NASTY = st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='alert(1)",
        "</style><script>alert(1)</script>",
        "</title>&lt;&#60;",
        "javascript:alert(1)",
        "<!-- ",
        "]]>",
        "\x00\ud800",
        "漢字 ﷽ \u202e",
    ]
)
TEXT = st.one_of(NASTY, st.text(max_size=30))
JSON = st.recursive(
    st.one_of(TEXT, st.none(), st.booleans(), st.floats(), st.integers()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
KNOWN_KEYS = ["action", "tool", "model", "fields", "arguments", "target", "passed", "actions"]
KNOWN_KEYS += ["limit", "type", "reason", "unit", "ok", "cause_by", "ends", "run", "cancelled"]
KNOWN_KEYS += ["granted", "rounds", "after", "changed", "attempts", "messages"]
EVENT = st.builds(
    Event,
    st.sampled_from(sorted(EVENT_KINDS - {"signal"})),
    role=TEXT,
    content=TEXT,
    to=st.lists(st.one_of(TEXT, st.just("<all>"), st.just("<none>")), max_size=2).map(tuple),
    data=st.dictionaries(st.one_of(st.sampled_from(KNOWN_KEYS), TEXT), JSON, max_size=4),
    time=st.integers(0, 3),
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    artifact=st.none() | st.builds(Artifact, TEXT, TEXT),
)
ANY_DATA = st.fixed_dictionaries({}, optional=dict.fromkeys(KNOWN_KEYS, JSON))
ROLES = st.lists(st.fixed_dictionaries({"name": TEXT, "profile": TEXT, "class": TEXT}), max_size=3)

ROLE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("name", "class", "profile", "watch", "actions"), JSON)
)
ANY_HEADER = st.fixed_dictionaries(
    {}, optional={"task": JSON | st.builds(dict, prompt=JSON), "roles": JSON | st.lists(ROLE)}
)


@st.composite
def trajectories(draw):
    events = draw(st.lists(EVENT, max_size=6))
    events.append(signal_event(Signal(draw(TEXT), draw(st.floats()), unit=draw(TEXT))))
    for seq, event in enumerate(events):
        event.seq = seq
        event.cause = draw(st.none() | st.integers(0, seq))
    about = {"task": draw(st.one_of(TEXT, st.builds(dict, prompt=TEXT))), "roles": draw(ROLES)}
    return Trajectory(draw(TEXT), about, events, draw(st.lists(TEXT, max_size=1)))


FINDINGS = st.lists(
    st.builds(
        FailureFinding,
        TEXT,
        st.just("present"),
        events=st.lists(st.integers(0, 6), max_size=2).map(tuple),
        role=TEXT,
        quote=TEXT,
        reason=TEXT,
        source=TEXT,
    ),
    max_size=2,
)

TAGS = """
html head meta title style body main h1 h2 h3 p dl div dt dd table thead tbody tr th td b ol li
span u i em mark q ul details summary footer code section figure figcaption svg line text polyline
rect g path polygon circle tspan label input a
"""
ATTRIBUTES = """
lang charset name content http-equiv class style title role viewbox points x y x1 x2 y1 y2 dy
text-anchor width height rx aria-label aria-hidden scope d cx cy r id href type checked
"""
STYLE = re.compile(r"(--lanes:\d+|((^|;)(left|width|margin-left):[\d.]+%)+)")


def check_harmless(document) -> None:
    assert set(document.tags) <= set(TAGS.split())
    assert {name for _, name, _ in document.attributes} <= set(ATTRIBUTES.split())
    for _, name, value in document.attributes:
        if name == "style":
            assert STYLE.fullmatch(value), value
        if name in ("id", "href"):
            assert re.fullmatch(r"#?event-\d+", value), value


def shown(text: str) -> str:
    import html

    return html.unescape(escape(text))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(trajectories(), FINDINGS)
def test_no_text_of_a_trajectory_ever_becomes_markup(read_html, trajectory, findings):
    document = read_html(trajectory_page(trajectory, findings, judged="j", made_by="m"))
    check_harmless(document)
    for event in trajectory.events:
        if event.kind == "message":
            assert shown(event.content) in document.text
    for finding in findings:
        assert shown(finding.mode) in document.text


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(trajectories(), FINDINGS, TEXT, st.floats(), st.dictionaries(TEXT, st.integers(0, 9)))
def test_no_text_of_a_training_report_ever_becomes_markup(
    read_html, trajectory, findings, text, number, failures
):
    page = training_page(
        TrainingReport(
            title=text,
            summary=text,
            tasks=3,
            success_before=0.2,
            success_after=0.9,
            curve=[(0, 0.1), (1, number)],
            curves={text: [(0, 0.3)]},
            failures_before=failures,
            failures_after={},
            failure_names={text: text},
            judged=text,
            facts=[(text, text)],
            examples=[Example(heading=text, remark=text, trajectory=trajectory, findings=findings)],
            made_by=text,
        )
    )
    document = read_html(page)
    check_harmless(document)
    assert shown(text) in document.text


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS - {"signal"}))
@settings(max_examples=40, deadline=None)
@given(ANY_DATA, ANY_HEADER)
def test_a_journal_may_have_any_json_where_something_else_is_expected(kind, data, about):
    """Other programs write journals too. What makes no sense is shown as it is, or left out."""
    heard = Event("message", role="A", to=("<all>",), data=data, seq=0)
    trajectory = Trajectory("t", about, [heard, Event(kind, role="A", data=data, cause=0, seq=1)])
    trajectory_page(trajectory)
    assert [step.seq for step in steps(trajectory)] == [0, 1]


def test_a_page_has_what_each_role_did_and_what_it_cost(read_html):
    events = [
        Event("message", role="user", content="go", to=("Ann",)),
        Event("action", role="Ann", data={"action": "Draft"}, cause=0),
        Event("model_call", role="Ann", data={"attempts": 3}, usage=Usage(1200, 3, 0.5), cause=1),
        Event("action_result", role="Ann", cause=1),
    ]
    for seq, event in enumerate(events):
        event.seq = seq
    about = {"roles": [{"name": "Ann", "profile": "writer", "actions": ["Draft", "Check"]}]}
    run = Trajectory("t", about, events, timings={2: Timing(2.5, 1.0), 3: Timing(3.0, 1.5)})
    document = read_html(trajectory_page(run))
    assert "Annwriter111,2003$0.5201.5 s" in document.text
    assert "Check never" in document.text
    assert "svg" in document.tags


def test_a_long_task_folds_away_and_is_still_whole(read_html):
    task = "Write a game.\n" * 100
    document = read_html(trajectory_page(Trajectory("t", {"task": {"prompt": task}})))
    assert "details" in document.tags
    assert task in document.text


def test_the_states_of_many_roles_fold_away(read_html):
    events = [
        Event("action", role=f"R{seq}", data={"action": "Draft"}, seq=seq) for seq in range(20)
    ]
    document = read_html(trajectory_page(Trajectory("t", {}, events)))
    assert "The states of 20 roles" in document.text


def test_findings_lead_to_the_events_that_they_name(read_html):
    event = Event("message", role="A", content="hi", to=("<all>",), seq=0)
    finding = FailureFinding("derailment", "present", events=(0,))
    document = read_html(trajectory_page(Trajectory("t", {}, [event]), [finding]))
    assert ("a", "href", "#event-0") in document.attributes
    assert ("li", "id", "event-0") in document.attributes


def page_of(**changes) -> str:
    fields = {
        "title": "Training",
        "summary": "What happened.",
        "tasks": 10,
        "success_before": 0.2,
        "success_after": 0.95,
        "curve": [(0, 0.2), (1, 0.9)],
        "failures_before": {"task_spec": 8},
        "failures_after": {"derailment": 1},
        "failure_names": {"task_spec": "Disobey task specification"},
    }
    return training_page(TrainingReport(**{**fields, **changes}))


def test_a_training_page_says_what_went_before_and_after(read_html):
    text = read_html(page_of()).text
    assert "20.0%" in text
    assert "95.0%" in text
    assert "Disobey task specification (task_spec)80" in text
    assert "derailment01" in text


def test_a_training_page_without_failures_says_so():
    assert "No failure was found" in page_of(failures_before={}, failures_after={})


def test_pages_load_nothing_from_outside():
    """One file is the whole report: no script, no address, and a policy that forbids both."""
    page = page_of(examples=[Example(heading="h", remark="", trajectory=Trajectory("t"))])
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    for loads in ("<script", "<link", "src=", "href=", "url(", "@import", "http://", "https://"):
        assert loads not in page


def test_every_class_in_a_page_has_a_style_or_is_the_kind_of_an_event():
    css = resources.files("rolecraft.viewer").joinpath("style.css").read_text("utf-8")
    page = page_of(
        examples=[
            Example(
                heading="h",
                remark="r",
                trajectory=Trajectory("t", {}, [Event("message", role="a", to=("b",), seq=0)]),
                findings=[FailureFinding("reset", "present", events=(0,))],
            )
        ]
    )
    used = {name for value in re.findall(r'class="([^"]*)"', page) for name in value.split()}
    known = set(re.findall(r"\.([a-z][\w-]*)", css)) | EVENT_KINDS
    assert used <= known


def test_nobody_looked_and_nothing_found_are_different_things():
    trajectory = Trajectory("t", {}, [Event("message", role="a", content="x", seq=0)])
    assert "Nobody looked for failures" in trajectory_page(trajectory)
    looked = trajectory_page(trajectory, [], judged="4 of the 14 modes were judged.")
    assert "Nobody looked" not in looked
    assert "No failure was found" in looked
    assert "4 of the 14 modes" in looked


def test_lines_that_could_not_be_read_are_listed(read_html):
    page = trajectory_page(Trajectory("t", problems=["run.jsonl:3: no JSON"]))
    assert "run.jsonl:3: no JSON" in read_html(page).text


def test_a_page_is_written_as_utf8_into_a_new_folder(tmp_path):
    path = write_page(tmp_path / "new" / "page.html", page_of(title="Bücher " + string.digits))
    assert "Bücher 0123456789" in path.read_text("utf-8")
