"""The models of one opening of a backend: who is asked, in which event loop, and what it could not tell."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from conformance.expect import not_evaluable
from conformance.llm.prompts import Known
from memcore import ChatTurn, Summarizer

LOOP_SECONDS = 5.0
"""An event loop that does not take a call for so long is blocked by the backend."""
NOTHING_FOUND = "There is nothing to summarize."
"""The answer to a prompt in which nothing of a conversation is found; no summarizer is asked."""
_LOOK_SECONDS = 0.05
_END_SECONDS = 1.0


class NoModel(Exception):
    """There is no answer, for a reason that is not the model's."""


class HungUp(Exception):
    """The client is gone, or the model was told to end the connection."""


class _Unknown(int):
    """A length that no prompt named: what compares it cannot be evaluated."""

    def __eq__(self, other: object) -> NoReturn:
        not_evaluable("the prompts name no length in characters that the kit could read")

    __hash__ = int.__hash__


class Opening:
    """What the server asks for one opened backend; made in the event loop of its check.

    Args:
        summarizer: Writes the summaries, in that loop; `None` if there is no language model.
        dimension: Of the embeddings, unless a request names another.
        model: Name of the embedding model.
        known: The turns that were appended in the namespace.
    """

    def __init__(self, summarizer: Summarizer | None, *, dimension: int, model: str, known: Known) -> None:
        self.dimension = dimension
        self.model = model
        self.doubts: dict[str, None] = {}
        self._summarizer = summarizer
        self._known = known
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()
        self._raised: dict[tuple[str, ...], BaseException] = {}
        self._lock = threading.Lock()
        self._closed = False

    def note(self, turns: Sequence[object]) -> None:
        """Say that these are about to be appended."""
        # What fails now fails for its own reasons; until here it was a client that tried again.
        self._raised.clear()
        for turn in turns:
            self._known.add(turn)

    def complete(self, prompt: Sequence[str], gone: Callable[[], bool]) -> object:
        """What the summarizer answers to the messages of a prompt; called in a thread of the server.

        Args:
            prompt: Texts of the messages.
            gone: Whether the client has hung up; then the summarizer is cancelled.

        Raises:
            NoModel: None is there, the opening has ended, or its event loop is blocked.
            HungUp: The client is gone, or the summarizer was cancelled.
            Exception: Whatever the summarizer raises.
        """
        started = threading.Event()
        call = self._submit(tuple(prompt), started)
        if not started.wait(LOOP_SECONDS) and not call.done():
            call.cancel()
            raise NoModel("the event loop is blocked: await the client, or use it in a thread")
        while not concurrent.futures.wait([call], timeout=_LOOK_SECONDS).done:
            if gone():
                call.cancel()
                raise HungUp
        try:
            return call.result()
        except concurrent.futures.CancelledError as error:
            raise HungUp from error

    async def aclose(self) -> None:
        """End the calls that are under way; later ones are refused."""
        with self._lock:
            self._closed = True
        # What was submitted before becomes a task now.
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_END_SECONDS)

    def _submit(self, prompt: tuple[str, ...], started: threading.Event) -> concurrent.futures.Future[object]:
        with self._lock:
            if self._closed:
                raise NoModel("this backend was closed")
            return asyncio.run_coroutine_threadsafe(self._call(prompt, started), self._loop)

    async def _call(self, prompt: tuple[str, ...], started: threading.Event) -> object:
        started.set()
        if self._closed:
            raise NoModel("this backend was closed")
        if self._summarizer is None:
            raise NoModel("this check gives no summarizer")
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await self._summary(self._summarizer, prompt)

    async def _summary(self, summarizer: Summarizer, prompt: tuple[str, ...]) -> object:
        # Clients try again by themselves, and must not get around a failure by it.
        if prompt in self._raised:
            raise self._raised[prompt]
        reading = self._known.read(prompt)
        self.doubts.update(dict.fromkeys(reading.doubts))
        if not reading.turns:
            # Such as a call that only tries whether there is a model.
            return NOTHING_FOUND
        length = _Unknown(-1) if reading.length is None else reading.length
        try:
            return await summarizer(reading.turns, max_chars=length)
        except (Exception, asyncio.CancelledError) as error:
            if not _cancelled_from_outside():
                self._raised[prompt] = error
            raise


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Noting:
    """Stands before a session store and tells an opening what is appended."""

    def __init__(self, store: object, opening: Opening) -> None:
        self._store = store
        self._opening = opening

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def append(self, session_id: object, *turns: ChatTurn) -> None:
        """Append, as the store does it."""
        self._opening.note(turns)
        await self._store.append(session_id, *turns)  # type: ignore[attr-defined]  # any session store
