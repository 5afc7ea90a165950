"""A small HTTP server for the models, in threads of its own.

The standard library's: four routes need no framework, and what the kit installed would have to agree with
what the backend under test, in the same environment, has pinned.
"""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.expect import Violation, not_evaluable
from conformance.llm.connections import Http
from conformance.llm.opening import Opening
from conformance.llm.prompts import Known
from memcore import Summarizer

_POLL_SECONDS = 0.02


class ModelServer:
    """The server of a run: each opening of a backend has an address of its own below it.

    It runs from the first opening until it is closed, or the process ends.
    """

    def __init__(self) -> None:
        self._http: Http | None = None
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count()
        self._known: dict[str, tuple[Known, list[Opening]]] = {}

    @asynccontextmanager
    async def opening(
        self, namespace: str, summarizer: Summarizer | None, *, dimension: int, model: str
    ) -> AsyncIterator[tuple[str, Opening]]:
        """Answer for an opened backend, at the address that this gives, as long as the context lasts.

        Raises:
            pytest.skip.Exception: The prompts could be read in more than one way, so neither that the check
                passed nor that it found a violation says anything.
        """
        http = self._started()
        known, others = self._known.setdefault(namespace, (Known(), []))
        opened = Opening(summarizer, dimension=dimension, model=model, known=known)
        others.append(opened)
        name = str(next(self._numbers))
        http.openings[name] = opened
        try:
            yield f"http://127.0.0.1:{http.server_port}/o/{name}/v1", opened
        except Violation:
            _certain(opened)
            raise
        finally:
            del http.openings[name]
            await opened.aclose()
            others.remove(opened)
            if not others:
                del self._known[namespace]
        _certain(opened)

    def close(self) -> None:
        """End the server, its threads and its connections; nothing happens the second time."""
        http, self._http = self._http, None
        if http is None or self._thread is None:
            return
        atexit.unregister(self.close)
        http.shutdown()
        self._thread.join()
        http.hang_up()
        http.server_close()

    def _started(self) -> Http:
        if self._http is None:
            self._http = http = Http()
            # A daemon, and ended at exit, so that a run which does not close it ends all the same.
            self._thread = threading.Thread(
                target=http.serve_forever, args=(_POLL_SECONDS,), name="memcore models", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)
        return self._http


def _certain(opened: Opening) -> None:
    if opened.doubts:
        first, more = next(iter(opened.doubts)), len(opened.doubts) - 1
        rest = f"; and {more} more such things" if more else ""
        not_evaluable(f"what the model was given is not certain: {first}{rest}")
