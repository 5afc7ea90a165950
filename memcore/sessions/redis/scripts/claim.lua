-- Takes a lease, if nobody has it.
--
-- KEYS  lease
-- ARGV  owner, its life in ms, time in µs after which nothing is done
-- Gives 1 if it was taken, else 0.

if server_time() > tonumber(ARGV[3]) then
  return 0
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
