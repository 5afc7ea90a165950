-- Which tables memcore made here, and what is in them.
CREATE TABLE IF NOT EXISTS {registry} (
    name text COLLATE "C" PRIMARY KEY,
    layout integer NOT NULL,
    model text,
    dimension integer,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
