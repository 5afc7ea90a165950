-- Removes a session: its keys, and its entry in the index.
--
-- KEYS  index, then all keys of the session
-- ARGV  session id, time in µs after which nothing is done
-- Gives 1, or 0 if it came too late.

if server_time() > tonumber(ARGV[2]) then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1]) -- First: an index of another type fails before anything is removed.
redis.call('DEL', unpack(KEYS, 2))
return 1
