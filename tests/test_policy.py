"""When a history is compressed, and what of it stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore import ChatTurn, CountPolicy, InvalidArgument, TokenWatermarkPolicy
from memcore.policy import Plan, Size

BY_CHARACTERS = TokenWatermarkPolicy(1000, count_tokens=len)


def weighing(*tokens: int) -> list[ChatTurn]:
    """Messages that take so many tokens, their overhead of 4 included."""
    return [ChatTurn("user", "x" * (weight - 4)) for weight in tokens]


def summary(tokens: int) -> ChatTurn:
    """A summary turn that takes so many tokens."""
    return ChatTurn("system", "s" * (tokens - 4), kind="summary")


@pytest.mark.parametrize(("length", "due"), [(0, False), (39, False), (40, False), (41, True), (1000, True)])
def test_a_count_is_due_above_its_bound(length: int, due: bool) -> None:
    """40 turns are not due, 41 are."""
    assert CountPolicy().due(Size(length, 10**9)) is due


def test_a_count_plans_to_keep_the_recent() -> None:
    """Of 41 turns 21 leave, with and without a summary."""
    plan = Plan(21, None, irreducible=False, fallback_cut=21, fallback_irreducible=False)
    assert CountPolicy().plan(weighing(*[5] * 41)) == plan
    assert CountPolicy().plan([summary(9), *weighing(*[5] * 40)]) == plan
    assert CountPolicy().plan(weighing(*[5] * 40)) is None


@pytest.mark.parametrize(
    ("after", "keep"), [(20, 20), (20, 21), (1, 1), (0, 0), (5, 0), (5, -1), (True, 0), (5.0, 1)]
)
def test_bounds_that_cannot_work_are_refused(after: int, keep: int) -> None:
    """At least one turn stays, and a summary and the turns that stay are not due again at once."""
    with pytest.raises(InvalidArgument, match="CountPolicy"):
        CountPolicy(after, keep)


@pytest.mark.parametrize(
    ("window", "high", "low"),
    [(0, 0.75, 0.5), (-1, 0.75, 0.5), (1.5, 0.75, 0.5), (True, 0.75, 0.5)]
    + [(1000, high, low) for high, low in [(0.5, 0.5), (0.5, 0.75), (1.1, 0.5), (0.75, 0), (0.75, -1)]],
)
def test_watermarks_that_cannot_work_are_refused(window: int, high: float, low: float) -> None:
    """A window is a whole number of tokens, and the low share lies below the high one."""
    with pytest.raises(InvalidArgument, match="TokenWatermarkPolicy"):
        TokenWatermarkPolicy(window, high, low)


def test_exactly_the_high_share_is_not_due() -> None:
    """750 of 1,000 tokens are not due, 751 are."""
    assert not BY_CHARACTERS.due(Size(1, 750))
    assert BY_CHARACTERS.due(Size(1, 751))


def test_a_message_weighs_its_content_its_tool_and_its_overhead() -> None:
    """Ten characters and a tool of four take 18."""
    assert BY_CHARACTERS.weigh(ChatTurn("assistant", "x" * 10, "grep")) == 18


def test_what_fits_beside_a_summary_stays() -> None:
    """Room of a quarter of the target, or of the asked length, is kept for the summary."""
    plan = BY_CHARACTERS.plan(weighing(*[100] * 8))
    assert plan == Plan(5, budget=200, irreducible=False, fallback_cut=3, fallback_irreducible=False)


def test_a_failure_keeps_what_fits_beside_the_earlier_summary() -> None:
    """An earlier summary of 300 leaves room for two turns of 100."""
    plan = BY_CHARACTERS.plan([summary(300), *weighing(*[100] * 5)])
    assert plan is not None
    assert (plan.fallback_cut, plan.fallback_irreducible) == (4, False)


def test_a_newest_turn_over_the_budget_stays_alone() -> None:
    """All others leave, and what is left is called irreducible."""
    plan = BY_CHARACTERS.plan(weighing(20, 20, 900))
    assert plan is not None
    assert (plan.cut, plan.irreducible, plan.fallback_irreducible) == (2, True, True)
    assert plan.budget == 125


def test_where_nothing_can_leave_there_is_no_plan() -> None:
    """A single message, and one beside a summary, stay; the policy says that they are too much."""
    for history in (weighing(5000), [summary(10), *weighing(5000)]):
        assert BY_CHARACTERS.plan(history) is None
        assert BY_CHARACTERS.irreducible(history)
    assert not BY_CHARACTERS.irreducible(weighing(10))


@given(weights=st.lists(st.integers(4, 1500), min_size=1, max_size=30), head=st.integers(0, 600))
def test_a_plan_is_within_its_budget_or_says_so(weights: list[int], head: int) -> None:
    """What stays and the budget of a summary fit the target, unless the newest turn alone does not."""
    history = [*([summary(head)] if head >= 4 else []), *weighing(*weights)]
    plan = BY_CHARACTERS.plan(history)
    if plan is None:
        assert not BY_CHARACTERS.irreducible(history) or len(weights) == 1
        return
    kept = sum(BY_CHARACTERS.weigh(turn) for turn in history[plan.cut :])
    assert 1 <= plan.cut < len(history)
    assert any(turn.kind == "message" for turn in history[: plan.cut])
    assert plan.irreducible == (kept > 500)
    assert plan.irreducible == (history[plan.cut :] == history[-1:] and weights[-1] > 500)
    assert plan.budget is not None
    assert plan.irreducible or kept + plan.budget <= 500
