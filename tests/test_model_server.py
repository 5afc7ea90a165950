"""The models over HTTP: what the kit's server answers, refuses and leaves behind."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.error import HTTPError

import pytest

from conformance.backend import Context
from conformance.expect import Violation
from conformance.llm import opening as llm_opening
from conformance.llm.opening import NOTHING_FOUND
from conformance.llm.server import ModelServer
from conformance.llm.wire import CHAT_MODEL
from conformance.provenance import Gated, Ledger
from conformance.world import World, run_name
from memcore import ChatTurn, CountPolicy
from tests.model_help import BLOCKING, Line, asking, in_loop, line


@pytest.mark.asyncio
async def test_a_summary_covers_what_the_prompt_held() -> None:
    """A token stands for the turns of its prompt, and the next for those behind it too."""
    ledger = Ledger()
    async with line(ledger) as at:
        at.opening.note([ChatTurn("user", f"t{n}") for n in range(4)])
        first = await asyncio.to_thread(at.ask, "t0", "t1")
        second = await asyncio.to_thread(at.ask, f"earlier: {first}\nt2")
        assert (first, second) == ("§0§", "§1§")
        assert ledger.covers(ChatTurn("system", second, kind="summary")) == ("t0", "t1", "t2")


@pytest.mark.asyncio
async def test_fifty_at_once_are_not_mixed_up() -> None:
    """Each of fifty concurrent requests gets the token of its own turn."""
    ledger = Ledger()
    async with line(ledger) as at:
        at.opening.note([ChatTurn("user", f"t{n}") for n in range(50)])
        with ThreadPoolExecutor(50) as pool:
            loop = asyncio.get_running_loop()
            calls = [loop.run_in_executor(pool, at.ask, f"t{n}") for n in range(50)]
            tokens = await asyncio.gather(*calls)
    assert [ledger.covers(ChatTurn("system", token, kind="summary")) for token in tokens] == [
        (f"t{n}",) for n in range(50)
    ]


@pytest.mark.asyncio
async def test_trying_again_does_not_get_around_a_failure() -> None:
    """The same prompt fails again, by an error or a lost connection, until something is appended."""
    ledger = Ledger()
    async with line(ledger) as at:
        for behaviour, error in (("raises", HTTPError), ("cancels", http.client.RemoteDisconnected)):
            at.opening.note([ChatTurn("user", "t0", turn_id="0")])
            ledger.behave.append(behaviour)  # type: ignore[arg-type]  # a behaviour
            for _ in range(2):
                with pytest.raises(error) as raised:
                    await asyncio.to_thread(at.ask, "t0")
                if isinstance(raised.value, HTTPError):
                    raised.value.close()
        assert len(ledger.calls) == 2
        at.opening.note([])
        assert await asyncio.to_thread(at.ask, "t0") == "§0§"


@pytest.mark.asyncio
async def test_a_length_that_no_prompt_names_is_not_judged() -> None:
    """Comparing it ends a check as not evaluable; a call that finds nothing asks no summarizer."""
    ledger = Ledger()
    async with line(ledger) as at:
        assert await asyncio.to_thread(at.ask, "ping") == NOTHING_FOUND
        at.opening.note([ChatTurn("user", "t0")])
        await asyncio.to_thread(at.ask, "t0")
    with pytest.raises(pytest.skip.Exception, match="no length"):
        assert [call.max_chars for call in ledger.calls] == [150]


async def _doubtful(raised: Exception | None) -> None:
    async with line(Ledger()) as at:
        at.opening.note([ChatTurn("user", "t0")])
        await asyncio.to_thread(at.ask, "t0 t0")
        if raised is not None:
            raise raised


@pytest.mark.asyncio
@pytest.mark.parametrize("raised", [None, Violation("CMP-011", "", 1, 2), OSError("no disk")])
async def test_doubt_outdoes_violations_alone(raised: Exception | None) -> None:
    """A check that had to do with a doubtful prompt is not evaluable, unless it ended otherwise."""
    expected = OSError if isinstance(raised, OSError) else pytest.skip.Exception
    with pytest.raises(expected):
        await _doubtful(raised)


@pytest.mark.asyncio
async def test_a_client_that_hangs_up_ends_the_call() -> None:
    """The summarizer is cancelled as soon as nobody waits for it."""
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(turns: Sequence[ChatTurn], /, *, max_chars: int) -> str:  # noqa: ARG001
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with line(waits) as at:
        at.opening.note([ChatTurn("user", "t0")])
        call = asyncio.create_task(in_loop(Context(namespace="n", llm_url=at.url), asking("t0")))
        await entered.wait()
        call.cancel()
        async with asyncio.timeout(5):
            await cancelled.wait()


@pytest.mark.asyncio
async def test_a_blocked_event_loop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that blocks the loop of the check gets an answer that says so, instead of waiting for ever."""
    monkeypatch.setattr(llm_opening, "LOOP_SECONDS", 0.2)
    async with line(Ledger()) as at:
        with pytest.raises(HTTPError) as raised:
            at.ask("t0")
        with raised.value as answer:
            assert "event loop is blocked" in answer.read().decode()


def _threads() -> set[threading.Thread]:
    """Those that run, but for those in which asyncio runs what blocks."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio")}


@pytest.mark.asyncio
async def test_nothing_is_left_running() -> None:
    """After the end no thread runs and nobody listens, though a client keeps its connection and one waits."""
    before = _threads()
    gate = Gated()
    async with line(gate) as at:
        at.opening.note([ChatTurn("user", "t0")])
        kept = http.client.HTTPConnection(at.host, at.port)
        sockets = list[object]()
        for _ in range(2):
            kept.request("GET", f"{at.path}/models")
            first = kept.getresponse()
            assert [model["id"] for model in json.load(first)["data"]] == [CHAT_MODEL, "e"]
            sockets.append(kept.sock)
        waiting = asyncio.create_task(in_loop(Context(namespace="n", llm_url=at.url), asking("t0")))
        await gate.entered.wait()
    assert _threads() == before
    assert kept.sock is not None
    assert sockets == [kept.sock] * 2
    kept.close()
    with pytest.raises(OSError, match="no answer"):
        await waiting
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((at.host, at.port))
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
async def test_an_opening_that_ended_is_not_asked() -> None:
    """Its address is unknown afterwards, and others of the same server go on."""
    ledger, server = Ledger(), ModelServer()
    try:
        async with server.opening("n", ledger, dimension=8, model="e") as (url, opened):
            async with server.opening("n", None, dimension=8, model="e") as (other, _):
                opened.note([ChatTurn("user", "t0")])
                assert url.rpartition("/o/")[0] == other.rpartition("/o/")[0]
                with pytest.raises(HTTPError) as raised:
                    await asyncio.to_thread(Line(server, other, opened).ask, "t0")
                with raised.value as answer:
                    assert "gives no summarizer" in answer.read().decode()
            assert await asyncio.to_thread(Line(server, url, opened).ask, "t0") == "§0§"
            with pytest.raises(HTTPError) as raised:
                await asyncio.to_thread(Line(server, other, opened).ask, "t0")
            with raised.value as answer:
                assert answer.status == 404
    finally:
        server.close()


@pytest.mark.asyncio
async def test_an_opening_that_ends_ends_its_calls() -> None:
    """A summarizer that is at work then is cancelled, and the client hears that there is no answer."""
    gate, server = Gated(), ModelServer()
    try:
        async with server.opening("n", gate, dimension=8, model="e") as (url, opened):
            opened.note([ChatTurn("user", "t0")])
            waiting = asyncio.create_task(asyncio.to_thread(Line(server, url, opened).ask, "t0"))
            await gate.entered.wait()
        with pytest.raises(http.client.RemoteDisconnected):
            await waiting
    finally:
        server.close()


@pytest.mark.asyncio
async def test_only_a_backend_that_asks_gets_a_server() -> None:
    """The address is empty unless the backend calls a model, and a closed world leaves no server."""
    before = _threads()
    for chosen, asks in ((BLOCKING, True), (replace(BLOCKING, calls_model=False), False)):
        world = World(chosen, {}, 0, run_name())
        async with world.open(policy=CountPolicy(4, 2)) as kit:
            assert kit.ctx.llm_url.endswith("/v1") is asks
        world.close()
    assert _threads() == before
