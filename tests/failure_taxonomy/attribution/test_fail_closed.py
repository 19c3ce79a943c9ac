"""An answer that cannot be used blames nobody, and never step 0."""

from __future__ import annotations

import pytest

from rolecraft.errors import ModelUnavailable, UnknownName
from rolecraft.failure_taxonomy.attribution import STRATEGIES, Attributor
from rolecraft.models import Completion, FunctionModel
from rolecraft.trajectories import Event

KEYS = {
    "all-at-once": ["step"],
    "step-by-step": ["decisive"],
    "binary-search": ["half"],
    "hybrid": ["decisive"],
    "role-then-step": ["step"],
}
WRONG = [None, "", "5", "0", -1, 0, 17, 99, 5.0, True, [5], {"step": 5}, "first half", "yes", 1e9]


@pytest.mark.parametrize("strategy", KEYS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
async def test_a_value_that_is_none_blames_no_step(run, strategy, wrong, reader):
    """0 is the user's message here; 17 is a measured signal, which no model was shown."""
    (key,) = KEYS[strategy]
    if (key, wrong) == ("decisive", True):
        pytest.skip("that is an answer")
    found = await Attributor(reader(**{key: wrong}).model, strategy=strategy).attribute(run())
    assert found.step is None
    assert found.problems
    assert found.why == "" or found.labels.decisive is None


@pytest.mark.parametrize("strategy", ["all-at-once", "hybrid", "role-then-step"])
@pytest.mark.parametrize("wrong", ["user", "nobody", "", "An", "ann and ben", None, 5, ["ann"]])
async def test_a_role_that_is_none_is_not_blamed(run, strategy, wrong, reader):
    found = await Attributor(reader(role=wrong).model, strategy=strategy).attribute(run())
    assert found.role == ""
    assert found.step == (5 if strategy == "all-at-once" else None)
    assert any(repr(wrong) in problem for problem in found.problems)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "Step 0.",
        '{"step": 5, "role": "cleo", "half": "first", "decisive": true, "candidate": null}',
        '{"marker": "0123456789", "step": 5, "role": "cleo", "half": "first", "decisive": true}',
        '{"marker": "0123456789", "step": 5, "ro',
        '```json\n[5, "cleo"]\n```',
    ],
    ids=lambda text: text[:20] or "empty",
)
async def test_what_is_no_answer_blames_nobody(run, strategy, text):
    model = FunctionModel(lambda call: text)
    found = await Attributor(model, strategy=strategy).attribute(run())
    assert (found.role, found.step, found.labels.decisive) == ("", None, None)
    assert found.why
    assert "decisive" not in found.to_dict()
    assert "nobody is blamed" in str(found)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_an_answer_that_is_cut_off_or_missing_blames_nobody(run, strategy, reader):
    one = reader()

    def cut(call):
        return Completion(text=one.answer(call).text, finish_reason="length")

    def gone(call):
        raise ModelUnavailable("nobody there")

    for function, said in ((cut, "cut off"), (gone, "nobody there")):
        found = await Attributor(FunctionModel(function), strategy=strategy).attribute(run())
        assert found.labels.decisive is None
        assert said in found.why


async def test_step_by_step_stops_where_a_step_was_not_judged(run, reader):
    """That step may be the decisive one, so a later one is not called the first."""
    one = reader()

    def answer(call):
        return "hm" if len(model.calls) == 3 else one.answer(call)

    model = FunctionModel(answer)
    found = await Attributor(model, strategy="step-by-step").attribute(run())
    assert found.labels.decisive is None
    assert len(model.calls) == 3


async def test_no_step_is_decisive_if_all_are_denied(run, reader):
    for strategy in ("step-by-step", "hybrid"):
        model = reader(decisive=False).model
        found = await Attributor(model, strategy=strategy).attribute(run())
        assert found.step is None
        assert "no step was called decisive" in found.problems


async def test_a_trace_in_which_nobody_acts_costs_no_call(trace, reader):
    model = reader().model
    found = await Attributor(model).attribute(trace(Event("message", role="user", content="hi")))
    assert found.labels.decisive is None
    assert model.calls == []


def test_a_strategy_that_there_is_not(reader):
    with pytest.raises(UnknownName, match="binary-search"):
        Attributor(reader().model, strategy="binary")
