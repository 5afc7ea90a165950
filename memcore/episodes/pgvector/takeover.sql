-- Numbered by the sequence of the new table in the order of arrival. What has no direction has no vector.
INSERT INTO {table} (user_key, created_at, user_id, session_id, episode_id, summary, v)
SELECT
    -- As `texts.user_key` and `texts.escaped` have it.
    encode(substring(sha256(convert_to(user_id::text, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid,
    -- Within the times that Python has.
    greatest(least(coalesce({created_at}, now()), '9999-12-31 23:59:59.999999+00'), '0001-01-01 00:00:00+00'),
    user_id::text,
    {session},
    id::text,
    replace(summary::text, E'\x1a', E'\x1a1'),
    CASE WHEN {vectors}.vector_norm(embedding) > 0
        THEN {vectors}.l2_normalize(embedding)::{vectors}.halfvec({dimension}) END
FROM {older} AS older
-- By the columns: a bare `id` would be the text that is selected above, in which 10 comes before 9.
ORDER BY older.created_at, older.id
