"""Provenance by text: what the kit finds in a prompt, and when it says that it cannot tell."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from conformance.llm.prompts import Known, Reading
from memcore import ChatTurn


def read(contents: Sequence[str], *prompt: str) -> Reading:
    """What is found in a prompt after these contents were appended."""
    known = Known()
    for content in contents:
        known.add(ChatTurn("user", content))
    return known.read(prompt)


def told(reading: Reading) -> list[str]:
    """Contents of what was found."""
    return [turn.content for turn in reading.turns]


@pytest.mark.parametrize(
    ("contents", "prompt", "expected"),
    [
        pytest.param(["t1", "t17", "t2"], "t17, t2", ["t17", "t2"], id="a part of a longer word"),
        pytest.param(["t1", "t2"], "t2 t1", ["t2", "t1"], id="the order of the prompt"),
        pytest.param(["t1"], "xt1 t1_ t1", ["t1"], id="whole words"),
        pytest.param(["a b", "a", "b"], "a b\na\nb", ["a b", "a", "b"], id="the longest"),
        pytest.param(["a", "a b"], "a b", ["a b"], id="the longest, not the first"),
        pytest.param(["a"], "Write a summary:\nuser: a\n", ["a"], id="a word of the instructions"),
        pytest.param(["一"], "用一句话总结:\nuser: 一\n", ["一"], id="a character of the instructions"),
        pytest.param(["t1"], "用户说t1完", ["t1"], id="no spaces"),
        pytest.param(["e"], "e\u0301 e", ["e"], id="an accent"),
        pytest.param(["👩"], "👩\u200d👧 👩", ["👩"], id="a part of an emoji"),
        pytest.param([" x\n"], "user: x", [" x\n"], id="stripped"),
        pytest.param(['q"\n会话'], json.dumps(['q"\n会话']), ['q"\n会话'], id="in JSON"),
        pytest.param(["t0", "t1"], json.dumps("t0\nt1"), ["t0", "t1"], id="lines in JSON"),
        pytest.param(["</m> & <b>"], "<m>&lt;/m&gt; &amp; &lt;b&gt;</m>", ["</m> & <b>"], id="in XML"),
        pytest.param([".*", "a(b"], "a(b .* ", ["a(b", ".*"], id="no patterns"),
        pytest.param(["t1"], "before: [会话摘要] §12§………\nt1", ["§12§", "t1"], id="an earlier summary"),
        pytest.param(["t1"], json.dumps("§3§……\nt1"), ["§3§", "t1"], id="an earlier summary in JSON"),
        pytest.param(["say §3§ now"], "say §3§ now", ["say §3§ now"], id="a turn that names a summary"),
        pytest.param(["yes", "no", "yes"], "yes\nno\nyes", ["yes", "no", "yes"], id="said twice"),
    ],
)
def test_turns_are_found_in_a_prompt(contents: list[str], prompt: str, expected: list[str]) -> None:
    """What was appended is found in the order of the prompt, without a doubt."""
    reading = read(contents, prompt)
    assert told(reading) == expected
    assert reading.doubts == ()


@pytest.mark.parametrize(
    ("contents", "prompt", "doubt"),
    [
        pytest.param(["t1"], "t1 t1", "2 times", id="once too often"),
        pytest.param(["t1"], "something else", "nothing that was appended", id="nothing"),
        pytest.param(["t1", " \n"], "t1", "blank", id="blank"),
        pytest.param(["x", " x"], "x", "by blanks alone", id="blanks"),
        pytest.param(["<", "&lt;"], "&lt;", "one of 2", id="quoted"),
    ],
)
def test_a_doubtful_prompt_says_so(contents: list[str], prompt: str, doubt: str) -> None:
    """Where it could be read otherwise there is a doubt, which says why."""
    assert doubt in " ".join(read(contents, prompt).doubts)


def test_summaries_are_known_by_kind_and_turns_come_whole() -> None:
    """A token is a summary; a message has the role and tool of the turn; nothing is found across messages."""
    known, turn = Known(), ChatTurn("assistant", "a\nb", "tool")
    known.add(turn)
    reading = known.read(["§0§", "a\nb"])
    assert [(found.kind, found.tool_name) for found in reading.turns] == [
        ("summary", None),
        ("message", "tool"),
    ]
    assert known.read(["a", "b"]).turns == ()
    assert Known().read(["ping"]).doubts == ()


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("in at most 150 characters", 150),
        ("a 150-character summary", 150),
        ("不超过150字", 150),
        ("max_chars=150", 150),
        ("in 150 words", None),
        ("150 characters, or 90 chars", None),
        ("150 characters. 150 chars!", 150),
    ],
)
def test_the_asked_length_is_read(text: str, length: int | None) -> None:
    """A number of characters in the instructions, if it is one; what a turn says is not read."""
    assert read(["t1, in 7 characters"], f"{text}: t1, in 7 characters").length == length
