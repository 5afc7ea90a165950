-- "C" compares bytes of UTF-8, which is code point order in every locale.
CREATE TABLE {table} (
    user_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, key)
)
