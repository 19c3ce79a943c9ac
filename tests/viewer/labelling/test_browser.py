"""The page in a real browser: people label, agree, decide; what a trace says never runs."""

from __future__ import annotations

import filecmp
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error, expect

from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.agreement import agreement
from rolecraft.failure_taxonomy.labels import Labels, read_labels
from rolecraft.trajectories import Event, FailureFinding
from rolecraft.viewer.labelling import Desk, OpenTrace, export_folder, open_traces

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_two_people_label_compare_talk_decide_and_export(
    visit: Any, server: Any, desk: Desk, trace: OpenTrace, tmp_path: Path
) -> None:
    ann, ben = await visit(server, "Ann"), await visit(server, "Ben")
    for person in (ann, ben):
        await person.open("parser.jsonl")

    # Ann sees a repetition: two events, a quote selected with the mouse, a note.
    await ann.card("repetition").locator(".choose").click()
    await ann.page.locator('.event[data-seq="1"]').click()
    await ann.page.locator('.event[data-seq="1"] .pick.evidence').click()
    await ann.select(3)
    await ann.page.get_by_role("button", name="Quote this").click()
    card = ann.card("repetition")
    await expect(card.locator("q.quote")).to_have_text('"tool":"list_files"')
    await expect(card.locator(".chip")).to_have_count(2)
    await expect(card.get_by_label("Role")).to_have_value("coder")
    await card.get_by_label("Note").fill("the folder had not changed")
    await ann.page.locator('.event[data-seq="3"]').hover()
    await ann.page.locator('.event[data-seq="3"] .pick.decisive').click()
    await ann.page.get_by_role("button", name="not done").click()
    await ann.finish()

    # Ben sees that nobody verified: an absence, which names an event and needs no quote.
    await ben.verdict("verification.absent", "present")
    await expect(ben.card("verification.absent").locator(".flaw")).to_contain_text("names no event")
    await expect(ben.page.locator(".finish")).to_be_disabled()
    await ben.page.locator('.event[data-seq="4"]').click()
    await ben.page.locator('.event[data-seq="4"] .pick.evidence').click()
    await expect(ben.card("verification.absent").locator(".flaw")).to_be_empty()
    await ben.finish()

    # Before he asks, nothing that Ann said has reached his page.
    assert "the folder had not changed" not in await ben.page.content()
    for person in (ann, ben):
        await person.page.get_by_role("button", name="Compare with others").click()
        await person.page.get_by_role("button", name="Look at what others say").click()
        await expect(person.page.get_by_text("They disagree on 4 of 16 points.")).to_be_visible()
    compared = ben.page.locator('.compared[data-field="mode/repetition"]')
    await expect(compared).to_contain_text("#1 #3 coder")
    await expect(compared).to_contain_text("the folder had not changed")
    assert "[object" not in await ben.page.content()

    # They talk; in round 2 Ben agrees about the repetition.
    await ben.page.get_by_role("button", name="Back to my labels").click()
    await ben.page.get_by_role("button", name="Begin round 2").click()
    await ben.card("repetition").locator(".choose").click()
    await ben.select(3)
    await ben.page.keyboard.press("q")
    await ben.saved()
    await ben.page.locator(".finish").click()
    await expect(ben.page.get_by_text("Round 2 is finished.")).to_be_visible()

    # Ann decides what holds.
    await ann.page.reload()
    await expect(ann.page.get_by_text("They disagree on 3 of 16 points.")).to_be_visible()
    await ann.page.get_by_role("button", name="Decide the 13 agreed points").click()
    decided = ann.page.locator('.compared[data-field="mode/verification.absent"]')
    await (
        decided.get_by_role("listitem")
        .filter(has_text="Ben")
        .get_by_role("button", name="Decide so")
        .click()
    )
    await decided.get_by_label("Why this holds").fill("nobody ran it")
    await expect(decided).to_contain_text("Decided by Ann")
    await ann.saved()
    await ann.page.get_by_role("link", name="Agreement").click()
    await expect(ann.page.get_by_text("Round 1, blind")).to_be_visible()
    row = ann.page.get_by_role("row").filter(has_text="parser.jsonl")
    await expect(row).to_contain_text("14 of 16")

    # Export, from the page and from the folder: the same labels, which `agreement` reads.
    await ann.page.get_by_role("link", name="Export").click()
    async with ann.page.expect_download() as started:
        await ann.page.get_by_role("link", name="round-1.jsonl", exact=True).click()
    download = await started.value
    export_folder(desk, tmp_path / "out")
    blind = tmp_path / "out" / "round-1.jsonl"
    await download.save_as(tmp_path / "downloaded")
    assert filecmp.cmp(tmp_path / "downloaded", blind, shallow=False)
    rows = {row.annotator: row for row in read_labels(blind)}
    assert rows["Ann"].verdict("repetition") == "present"
    assert rows["Ann"].outcome is False
    assert rows["Ann"].decisive is not None
    assert rows["Ann"].decisive.step == 3
    assert rows["Ben"].verdict("repetition") == "absent"
    (gold,) = read_labels(tmp_path / "out" / "gold.jsonl")
    reasons = {finding.mode: finding.reason for finding in gold.findings}
    assert reasons["verification.absent"] == "nobody ran it"
    assert reasons["repetition"] == "all annotators agree"
    result = agreement([gold], read_labels(tmp_path / "out" / "round-1.Ann.jsonl"))
    assert result.rows["repetition"].score("recall") == 1.0
    assert result.rows["verification.absent"].score("recall") == 0.0


HOSTILE = (
    "</div></script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
    "<svg onload='window.ran = 1'><a href='javascript:window.ran = 1'>click</a>"
    "<style>body { display: none }</style><base href='https://evil.example/'>"
    "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe>{{7*7}}${7*7}<!--"
)


async def test_a_trace_full_of_markup_and_scripts_shows_as_text(
    visit: Any, served: Any, save_trace: Any, tmp_path: Path
) -> None:
    kinds: Any = ["message", "thought", "tool_result", "artifact", "verify", "error", "stop"]
    events = [
        Event(kind, role=HOSTILE, content=HOSTILE, data={"target": HOSTILE, "reason": HOSTILE})
        for kind in kinds
    ] + [Event("tool_call", role="b", data={"tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}})]
    roles = [{"name": HOSTILE, "profile": HOSTILE, "goal": HOSTILE}]
    path = save_trace("hostile", events, task=HOSTILE, roles=roles)
    named = path.rename(path.with_name("<img src=x onerror=window.ran=1>.jsonl"))
    traces = open_traces([named])
    finding = FailureFinding(
        "repetition", "present", (0,), HOSTILE, HOSTILE, source=HOSTILE, reason=HOSTILE
    )
    labels = Labels(trace=str(named), annotator=HOSTILE, findings=(finding,))
    desk = Desk(traces, tmp_path / "labels", suggestions=[labels])
    with served(desk) as server:
        somebody = await visit(server, "<b>Ann</b>")
        asked: list[str] = []
        somebody.page.on("request", lambda request: asked.append(request.url))
        somebody.page.on("dialog", lambda dialog: asked.append(dialog.message))
        await somebody.open(named.name)
        page = somebody.page
        assert await page.locator(".event .text").first.inner_text() == HOSTILE
        assert await page.locator(".intro .text").first.inner_text() == HOSTILE
        for details in await page.locator(".intro details:not([open]) summary").all():
            await details.click()
        await page.get_by_role("button", name="Show suggestions").click()
        await page.get_by_placeholder("Search").fill("<script>")
        await expect(page.locator(".found")).to_contain_text("of 8 events")
        await somebody.card("repetition").locator(".choose").click()
        await somebody.card("repetition").get_by_role("button", name="Take over").click()
        await somebody.card("repetition").get_by_label("Note").fill(HOSTILE)
        await somebody.finish()
        await page.get_by_role("button", name="Compare with others").click()
        await page.locator(".look").click()
        await expect(page.locator('[data-field="mode/repetition"]')).to_contain_text(HOSTILE[:60])
        await page.locator('[data-field="mode/repetition"] .decide-so').click()
        await page.get_by_label("Why this holds").first.fill(HOSTILE)
        await page.get_by_role("link", name="Traces").click()
        await expect(page.get_by_text("Traces of <b>Ann</b>")).to_be_visible()
        assert await page.evaluate("window.ran") is None
        strange = (
            "script:not([src^='/static/']), img, iframe, base, style, svg, [onerror], [onload]"
        )
        assert await page.locator(strange).count() == 0
        origin = f"http://127.0.0.1:{server.port}/"
        assert [url for url in asked if not url.startswith(origin)] == []


async def test_the_browser_itself_refuses_markup_from_text(visit: Any, server: Any) -> None:
    """Should a script of ours ever use one, the policy stops it."""
    somebody = await visit(server)
    with pytest.raises(Error, match="TrustedHTML"):
        await somebody.page.evaluate("document.body.innerHTML = '<i>x</i>'")
    somebody.errors.clear()  # the browser reports what it refused


async def test_what_is_typed_while_the_server_is_away_is_saved_when_it_is_back(
    visit: Any, served: Any, desk: Desk, trace: OpenTrace
) -> None:
    with served(desk) as server:
        ann = await visit(server, "Ann")
        await ann.open("parser.jsonl")
        note = ann.page.get_by_placeholder("Anything else about this trace")
        await note.fill("before")
        await ann.saved()
    await note.fill("while it was away")
    await expect(ann.page.locator(".status")).to_contain_text("Not saved. The server cannot")
    with served(Desk([trace], desk.folder), port=server.port, token=server.token):
        await ann.saved()
    assert desk.sheet("Ann", trace.key).note == "while it was away"


async def test_what_was_just_typed_is_saved_when_the_tab_is_closed(
    visit: Any, server: Any, desk: Desk, trace: OpenTrace
) -> None:
    ann = await visit(server, "Ann")
    await ann.open("parser.jsonl")
    await ann.page.get_by_placeholder("Anything else").fill("the last words")
    await ann.page.goto("about:blank")
    again = await visit(server)
    await again.page.get_by_role("button", name="Ann").click()
    await again.open("parser.jsonl")
    await expect(again.page.get_by_placeholder("Anything else")).to_have_value("the last words")


async def test_two_tabs_that_disagree_say_so_and_neither_is_lost(
    visit: Any, server: Any, desk: Desk, trace: OpenTrace
) -> None:
    one = await visit(server, "Ann")
    await one.open("parser.jsonl")
    two = await visit.tab(one.page.context, server, "")
    await two.page.get_by_role("button", name="Ann").click()
    await two.open("parser.jsonl")
    # Neither tab hears of the other until it saves.
    for tab in (one, two):
        await tab.page.evaluate(
            "window.addEventListener('focus', e => e.stopImmediatePropagation(), true)"
        )
    await one.verdict("reset", "absent")
    await one.saved()
    await two.verdict("reset", "unknown")
    conflict = two.page.locator(".alert.conflict")
    await expect(conflict).to_contain_text("“reset” was changed in another window")
    await expect(two.page.locator(".status")).to_contain_text("Not saved")
    assert desk.sheet("Ann", trace.key).values["mode/reset"]["verdict"] == "absent"
    await conflict.get_by_role("button", name="This window's").click()
    await two.saved()
    assert desk.sheet("Ann", trace.key).values["mode/reset"]["verdict"] == "unknown"
    lines = (desk.folder / "annotators" / "Ann.jsonl").read_text().splitlines()
    said = [json.loads(line) for line in lines if "mode/reset" in line]
    assert [(row["value"]["verdict"], row.get("lost", False)) for row in said] == [
        ("absent", False),
        ("unknown", True),
        ("unknown", False),
    ]


async def test_everything_can_be_done_with_keys(
    visit: Any, server: Any, desk: Desk, trace: OpenTrace
) -> None:
    ann = await visit(server, "Ann")
    await ann.open("parser.jsonl")
    press = ann.page.keyboard.press
    for key in ("3", "j", "j", "j", "e"):  # the third mode; event 3 is evidence of it
        await press(key)
    await expect(ann.page.locator(".event.current")).to_have_attribute("data-seq", "3")
    await press("d")
    await press("m")  # the next mode
    await press("n")
    await press("Shift+Digit4")  # the fourteenth
    await press("u")
    await ann.saved()
    values = desk.sheet("Ann", trace.key).values
    modes = list(MODES)
    assert (values[f"mode/{modes[2]}"]["verdict"], values[f"mode/{modes[2]}"]["events"]) == (
        "present",
        [3],
    )
    assert values[f"mode/{modes[3]}"]["verdict"] == "absent"
    assert values[f"mode/{modes[13]}"]["verdict"] == "unknown"
    assert values["decisive"] == {"role": "coder", "step": 3}
    await press("g")
    await ann.page.keyboard.type("5")
    await press("Enter")
    await expect(ann.page.locator(".event.current")).to_have_attribute("data-seq", "5")
    await press("/")
    await ann.page.keyboard.type("nobody need")
    await expect(ann.page.locator(".found")).to_contain_text("1 of 1 event")
    await press("Escape")
    await press("?")
    await expect(ann.page.locator("dialog")).to_be_visible()
    await expect(ann.page.locator("dialog")).to_contain_text("go to an event by its number")


async def test_a_private_file_leads_the_browser_to_the_page(
    visit: Any, server: Any, tmp_path: Path
) -> None:
    """The key must not stand on the browser's command line, which everybody can read."""
    opener = server.write_opener(tmp_path / "labels")
    assert opener.stat().st_mode & 0o077 == 0
    somebody = await visit(server)
    await somebody.page.context.clear_cookies()
    await somebody.page.goto(opener.as_uri())
    await expect(somebody.page.get_by_text("Who are you?")).to_be_visible()
    assert server.token not in somebody.page.url


async def test_a_quote_is_the_selected_text_of_one_event(
    visit: Any, server: Any, desk: Desk, trace: OpenTrace
) -> None:
    ann = await visit(server, "Ann")
    await ann.open("parser.jsonl")
    offer = ann.page.locator(".quote-here")
    # Three clicks on the last line of a text select up to the beginning of the next event.
    await ann.select(2)
    await expect(offer).to_contain_text("Quote this")
    await offer.click()
    await expect(ann.card("task_spec").locator("q.quote")).to_have_text("parser.py")
    # From one event into the middle of another.
    start = ann.page.locator('.event[data-seq="2"] .text')
    end = ann.page.locator('.event[data-seq="4"] .text')
    await start.hover(position={"x": 5, "y": 8})
    await ann.page.mouse.down()
    await end.hover(position={"x": 60, "y": 8})
    await ann.page.mouse.up()
    await expect(offer).to_have_text("A quote comes from one event")
    await expect(offer).to_be_disabled()
    await ann.saved()
    value = desk.sheet("Ann", trace.key).values["mode/task_spec"]
    assert (value["quote"], value["events"], value["role"]) == ("parser.py", [2], "coder")


async def test_an_address_of_a_trace_that_is_not_here_leads_to_the_list(
    visit: Any, server: Any
) -> None:
    ann = await visit(server, "Ann")
    await ann.open("parser.jsonl")
    await ann.page.goto(f"http://127.0.0.1:{server.port}/#/trace/nonsense")
    await expect(ann.page.get_by_text("Traces of Ann")).to_be_visible()


@pytest.mark.slow
async def test_a_trace_of_10_000_events_stays_usable(
    visit: Any, served: Any, save_trace: Any, tmp_path: Path
) -> None:
    events = [
        Event(
            "message" if at % 3 else "tool_result",
            role=f"role {at % 5}",
            content=f"event number {at}\n" + "words and words " * 20,
        )
        for at in range(10_000)
    ]
    events[7777].content += "a needle"
    events[50].content = "x" * 300_000 + " the end"
    desk = Desk(open_traces([save_trace("big", events)]), tmp_path / "labels")
    with served(desk) as server:
        ann = await visit(server, "Ann")
        await ann.open("big.jsonl")
        page = ann.page
        assert await page.locator(".event").count() < 300
        await page.get_by_placeholder("Search").fill("needle")
        await expect(page.locator(".event.current")).to_have_attribute("data-seq", "7777")
        await expect(page.locator(".event.current")).to_be_in_viewport()
        await page.get_by_placeholder("Event").fill("9999")
        await page.keyboard.press("Enter")
        await expect(page.locator('.event[data-seq="9999"]')).to_be_in_viewport()
        await page.get_by_placeholder("Event").fill("50")
        await page.keyboard.press("Enter")
        long = page.locator('.event[data-seq="50"]')
        await long.locator(".more").click()
        await expect(long).to_contain_text("the end")
        await page.get_by_label("Kind of event").select_option("tool_result")
        await page.get_by_label("Role", exact=True).select_option("role 3")
        await page.get_by_placeholder("Event").fill("9993")
        await page.keyboard.press("Enter")
        await expect(page.locator('.event[data-seq="9993"]')).to_be_in_viewport()
        shown = await page.locator(".event").evaluate_all(
            "all => all.map(e => Number(e.dataset.seq))"
        )
        assert all(at % 15 == 3 for at in shown)
        assert len(shown) < 300


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_its_window_in_both_colours(
    visit: Any, server: Any, width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 700}, "color_scheme": scheme}
    ann = await visit(server, "Ann", **options)
    await ann.open("parser.jsonl")
    page = ann.page
    if width < 800:
        await expect(page.locator(".panel")).to_be_hidden()
        await page.get_by_role("button", name="Labels", exact=True).click()
        await expect(page.locator(".reader")).to_be_hidden()
    await ann.verdict("repetition", "present")
    too_wide = "document.documentElement.scrollWidth > innerWidth"
    assert not await page.evaluate(too_wide)
    colours = "e => { const c = getComputedStyle(e); return [c.color, c.backgroundColor] }"
    ink, paper = await page.locator("body").evaluate(colours)
    assert (brightness(ink) > brightness(paper)) == (scheme == "dark")


def brightness(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


async def test_suggestions_are_hidden_until_asked_for(
    visit: Any, served: Any, trace: OpenTrace, tmp_path: Path
) -> None:
    finding = FailureFinding(
        "repetition", "present", (3,), "coder", '"tool":"list_files"', source="detector.repetition"
    )
    labels = Labels(trace=trace.name, annotator="detectors", findings=(finding,))
    desk = Desk([trace], tmp_path / "labels", suggestions=[labels])
    with served(desk) as server:
        ann = await visit(server, "Ann")
        await ann.open("parser.jsonl")
        await ann.card("repetition").locator(".choose").click()
        await expect(ann.page.locator(".suggestion")).to_have_count(0)
        await ann.page.get_by_role("button", name="Show suggestions").click()
        await expect(ann.page.locator(".suggestion")).to_contain_text("detector.repetition")
        await expect(ann.page.locator(".panel-top")).to_contain_text("suggestions seen")
        assert desk.sheet("Ann", trace.key).saw == ("detectors",)
        await ann.page.get_by_role("button", name="Take over").click()
        await ann.saved()
        value = desk.sheet("Ann", trace.key).values["mode/repetition"]
        assert (value["verdict"], value["events"]) == ("present", [3])
