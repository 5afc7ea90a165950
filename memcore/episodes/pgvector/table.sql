-- One embedding model and one dimension; the registry says which. Widest columns last, fixed ones first.
CREATE TABLE {table} (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_key uuid NOT NULL,
    created_at timestamptz NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    episode_id text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    v {vectors}.halfvec({dimension})
) WITH (
    -- Index-only scans need VACUUM, which a table that only grows would seldom get.
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_vacuum_scale_factor = 0.05
);
-- Without statistics of this column the planner always takes a user to have 1 in 200 rows. Statistics of
-- yesterday, when one user had all of them, would make it read the whole table today.
ALTER TABLE {table} ALTER COLUMN user_key SET STATISTICS 0;
CREATE UNIQUE INDEX ON {table} (user_key, episode_id)
