"""Episodes on Postgres with pgvector."""

from memcore.episodes.pgvector.store import EXACT_ROWS, PgVectorEpisodicStore

__all__ = ["EXACT_ROWS", "PgVectorEpisodicStore"]
