-- Gives a lease back, if it is still this owner's.
--
-- KEYS  lease, list
-- ARGV  owner
-- Gives {length, tokens} of the list at that instant.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {size_of(KEYS[2])}
