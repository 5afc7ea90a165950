"""What stores tell about themselves while they work.

A store takes `trace=`, a function that gets each event. The default writes it to the logger `memcore.trace`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

logger = logging.getLogger("memcore.trace")

Status: TypeAlias = Literal["unchanged", "compressed", "truncated", "deferred", "discarded"]


@dataclass(frozen=True, slots=True)
class CompressionEnded:
    """The outcome of one attempt to compress a session.

    Args:
        session_id: The session.
        status: `unchanged`: nothing had to go. `compressed`: a summary stands for `covered`. `truncated`:
            no usable summary, so `dropped` is gone. `deferred`: another attempt is under way. `discarded`:
            the result was thrown away, because the history had changed under it or the store was away; if
            the store went away during the commit, the event has the turns that went if it landed after all.
        attempt: Identifies the attempt; the turn id of the summary that it wrote.
        before: Length of the history that was read, a summary included.
        after: Length that the history would have had without later appends.
        covered: Ids of the messages that the new summary stands for, oldest first; an earlier summary
            that was folded in is not listed again.
        dropped: Ids of the messages that are gone without a summary, oldest first.
        irreducible: The newest turn alone is over the budget, so the history still is.
        reason: Why the attempt was not `compressed`.
    """

    session_id: str
    status: Status
    attempt: str
    before: int = 0
    after: int = 0
    covered: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    irreducible: bool = False
    reason: str = ""

    def __str__(self) -> str:
        counts = f"{self.before} → {self.after} turns" if self.before else ""
        lost = f"dropped {', '.join(self.dropped)}" if self.dropped else ""
        flag = "irreducible" if self.irreducible else ""
        parts = [part for part in (counts, self.reason, lost, flag) if part]
        return f"🧠 session {self.session_id!r}: {self.status} ({'; '.join(parts)})"


Event: TypeAlias = CompressionEnded
Trace: TypeAlias = Callable[[Event], None]


def log_event(event: Event) -> None:
    """Write an event to the logger: lost turns as a warning, the rest for debugging."""
    level = logging.WARNING if event.dropped or event.status == "discarded" else logging.DEBUG
    logger.log(level, "%s", event)


def emit(trace: Trace, event: Event) -> None:
    """Hand an event to a subscriber; one that raises is logged and does not disturb the store."""
    try:
        trace(event)
    except Exception:
        logger.exception("a trace subscriber failed on %s", event)
