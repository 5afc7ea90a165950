-- Removes a session: its keys, and its entry in the index.
--
-- KEYS  index, then all keys of the session
-- ARGV  session id

redis.call('ZREM', KEYS[1], ARGV[1]) -- First: an index of another type fails before anything is removed.
redis.call('DEL', unpack(KEYS, 2))
return 'ok'
