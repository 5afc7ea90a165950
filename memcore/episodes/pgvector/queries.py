"""The statements of the episodic store, and why they are as they are."""

from __future__ import annotations

from psycopg import sql

from memcore.postgres.database import IN_TIME
from memcore.postgres.tables import query

REMEMBER = """
WITH added AS (
    INSERT INTO {table} (user_key, created_at, user_id, session_id, episode_id, summary, v)
    VALUES (%(user_key)s, coalesce(%(created_at)s::timestamptz, clock_timestamp()), %(user_id)s,
        %(session_id)s, %(episode_id)s, %(summary)s, %(v)s::{vectors}.halfvec)
    ON CONFLICT (user_key, episode_id) DO NOTHING
    RETURNING 1
),
counted AS MATERIALIZED (SELECT count(*) FROM added)
SELECT {in_time}, count
FROM counted
"""

FORGET = """
WITH gone AS (
    DELETE FROM {table} WHERE user_key = %(user_key)s AND user_id = %(user_id)s RETURNING 1
),
counted AS MATERIALIZED (SELECT count(*) FROM gone)
SELECT {in_time}, count
FROM counted
"""

# The nearest of a user's rows are found by what one index holds, and only those are looked up in the table,
# one by one: without OFFSET 0 the planner may read the whole table to join it to some hundreds of rows.
# `found` is materialized, so that no approximate index can serve the order.
_RECALL = """
WITH found AS MATERIALIZED ({found}),
best AS (SELECT seq, distance FROM found ORDER BY distance, seq LIMIT %(k)s)
SELECT (SELECT count(*) FROM found), (SELECT max(distance) FROM found), best.distance,
    e.session_id, e.summary, e.episode_id, e.created_at AT TIME ZONE 'UTC'
FROM best CROSS JOIN LATERAL (
    SELECT * FROM {table} WHERE seq = best.seq AND user_id = %(user_id)s OFFSET 0
) AS e
ORDER BY best.distance, best.seq
"""

# As many as may be searched exactly, and one more that tells that there are too many.
_ALL_ROWS = """
SELECT seq, v OPERATOR({vectors}.<=>) %(v)s::{vectors}.halfvec AS distance
FROM {table} WHERE user_key = %(user_key)s AND v IS NOT NULL LIMIT %(rows)s
"""

# In the order of the operator itself, or the index does not serve it.
_NEAR_ROWS = """
SELECT seq, v OPERATOR({vectors}.<=>) %(v)s::{vectors}.halfvec AS distance
FROM {table} WHERE user_key = %(user_key)s
ORDER BY v OPERATOR({vectors}.<=>) %(v)s::{vectors}.halfvec LIMIT %(rows)s
"""

EXACT = _RECALL.replace("{found}", _ALL_ROWS)
BY_INDEX = _RECALL.replace("{found}", _NEAR_ROWS)

# For one transaction, which a pipeline is. With few rows, or a user who has most of them, sorting looks
# cheaper to the planner.
SEARCH_BY_INDEX = b"""
SELECT set_config('hnsw.ef_search', %(ef_search)s::text, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('enable_sort', 'off', true),
    set_config('enable_seqscan', 'off', true)
"""


class Queries:
    """The statements for one table.

    Args:
        table: Its full name.
        vectors: The schema that the extension is in.
    """

    def __init__(self, table: sql.Identifier, vectors: sql.Identifier) -> None:
        parts = {"table": table, "vectors": vectors, "in_time": IN_TIME}
        self.remember = query(REMEMBER, **parts)
        self.forget = query(FORGET, **parts)
        self.exact = query(EXACT, **parts)
        self.by_index = query(BY_INDEX, **parts)
