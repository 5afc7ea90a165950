"""Session stores that are wrong in when they compress, and in what stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance.backend import Context
from conformance.mutants.making import compression
from memcore import ChatTurn, Compressor, CountPolicy, TokenWatermarkPolicy
from memcore.policy import Plan, Policy, Size


class _WrongPolicy:
    """A policy that passes on to another, for those that are wrong in one point."""

    def __init__(self, right: Policy) -> None:
        self.right = right

    def weigh(self, turn: ChatTurn) -> int:
        return self.right.weigh(turn)

    def due(self, size: Size) -> bool:
        return self.right.due(size)

    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        return self.right.plan(history)

    def irreducible(self, history: Sequence[ChatTurn]) -> bool:
        return self.right.irreducible(history)


class _OneTooMany(_WrongPolicy):
    def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
        plan = self.right.plan(history)
        if plan is None or plan.cut + 1 >= len(history):
            return plan
        return replace(plan, cut=plan.cut + 1, fallback_cut=plan.fallback_cut + 1)


def _with(ctx: Context, policy: Policy) -> Compressor:
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression(
    "CMP-002", fragment="history of 41 turns", report="a cut that is off by one", may="CMP SES-008 SES-009"
)
def keeps_one_less(ctx: Context) -> Compressor:
    """One turn less than asked stays verbatim."""

    return _with(ctx, _OneTooMany(ctx.policy))


@compression("CMP-001", fragment="calls of the summarizer", report="langchain-ai/langchain#3922", may="CMP")
def fires_at_the_bound(ctx: Context) -> Compressor:
    """Compression fires one turn early."""

    policy = ctx.policy
    if isinstance(policy, CountPolicy):
        policy = replace(policy, compress_after=max(policy.compress_after - 1, policy.keep_recent + 1))
    return _with(ctx, policy)


@compression(
    "CMP-005", fragment="calls of the summarizer", report="tokens that are not counted", may="CMP-004"
)
def overhead_is_free(ctx: Context) -> Compressor:
    """The overhead of each message is not counted."""

    class Free(_WrongPolicy):
        def weigh(self, turn: ChatTurn) -> int:
            return len(turn.content)

        def due(self, size: Size) -> bool:
            return self.right.due(size)

    return _with(ctx, Free(ctx.policy) if isinstance(ctx.policy, TokenWatermarkPolicy) else ctx.policy)


@compression(
    "CMP-007",
    fragment="got:      [ChatTurn(role='system', content='[会",
    report="adolfousier/opencrabs#1649",
    may="CMP-005",
)
def summary_of_any_length(ctx: Context) -> Compressor:
    """A summary over the budget is stored."""

    class Generous(_WrongPolicy):
        def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
            plan = self.right.plan(history)
            return replace(plan, budget=None) if plan else None

    return _with(ctx, Generous(ctx.policy))


@compression("CMP-004", fragment="calls of the summarizer", report="a bound that is off by one")
def fires_a_token_early(ctx: Context) -> Compressor:
    """The watermark is one token too low."""

    policy = ctx.policy
    if isinstance(policy, TokenWatermarkPolicy):
        policy = replace(policy, context_tokens=policy.context_tokens - 1)
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


@compression("CMP-006", fragment="got:      [('compressed', False)]", report="a flag that nobody sets")
def never_irreducible(ctx: Context) -> Compressor:
    """What cannot be made smaller is not reported as such."""

    return Compressor(
        ctx.policy,
        ctx.summarizer,
        timeout=ctx.summarizer_timeout,
        trace=lambda event: ctx.trace(replace(event, irreducible=False)),
    )


@compression("CMP-015", fragment="history after a first failure", report="a failure that keeps everything")
def no_summarizer_keeps_all(ctx: Context) -> Compressor:
    """Without a summarizer nothing is ever dropped."""

    policy = ctx.policy if ctx.summarizer else CountPolicy(1_000_000, 10)
    return Compressor(policy, ctx.summarizer, timeout=ctx.summarizer_timeout, trace=ctx.trace)


def _planned(policy: Policy, cut: Callable[[Plan, Sequence[ChatTurn]], int]) -> Policy:
    """The policy, with another place to cut."""

    class Planned(_WrongPolicy):
        def plan(self, history: Sequence[ChatTurn]) -> Plan | None:
            plan = self.right.plan(history)
            at = cut(plan, history) if plan else 0
            return replace(plan, cut=at, fallback_cut=at) if plan else None

    return Planned(policy)


@compression(
    "CMP-002", fragment="history of 41 turns", report="letta-ai/letta#2601", may="CMP SES-008 SES-009"
)
def keeps_the_newest_alone(ctx: Context) -> Compressor:
    """A compression takes everything but the last turn."""
    return _with(ctx, _planned(ctx.policy, lambda _, history: len(history) - 1))


@compression(
    "CMP-002", fragment="history of 41 turns", report="letta-ai/letta#2512", may="CMP SES-008 SES-009"
)
def keeps_two(ctx: Context) -> Compressor:
    """However many turns shall stay, two do."""
    return _with(ctx, _planned(ctx.policy, lambda _, history: max(1, len(history) - 2)))


@compression(
    "CMP-002",
    fragment="calls of the summarizer",
    report="run-llama/llama_index#14958",
    may="CMP SES-008 SES-009 SES-020 SES-024",
)
def never_compresses(ctx: Context) -> Compressor:
    """The number of turns is compared with something else, so nothing is ever due."""

    class Never(_WrongPolicy):
        def due(self, size: Size) -> bool:  # noqa: ARG002
            return False

    return _with(ctx, Never(ctx.policy))


def _weighing(ctx: Context, weigh: Callable[[Any, ChatTurn], int]) -> Compressor:
    class Weighing(_WrongPolicy):
        def weigh(self, turn: ChatTurn) -> int:
            return weigh(self.right, turn)

    return _with(ctx, Weighing(ctx.policy) if isinstance(ctx.policy, TokenWatermarkPolicy) else ctx.policy)


@compression("CMP-005", fragment="calls at 751 tokens", report="tokens that are not counted")
def tool_names_are_free(ctx: Context) -> Compressor:
    """The name of a tool takes no tokens."""
    return _weighing(ctx, lambda right, turn: right.weigh(replace(turn, tool_name=None)))


@compression(
    "CMP-005", fragment="calls above 75 % with a summary", report="tokens that are not counted", may="CMP-007"
)
def summaries_are_free(ctx: Context) -> Compressor:
    """The summary takes no tokens."""
    return _weighing(ctx, lambda right, turn: 0 if turn.kind == "summary" else right.weigh(turn))
