-- Removes sessions from the index that have expired and were not begun again meanwhile.
--
-- KEYS  index
-- ARGV  prefix, then session id and the score that was read, and so on

for i = 2, #ARGV, 2 do
  local unchanged = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i])) == tonumber(ARGV[i + 1])
  if unchanged and redis.call('EXISTS', key_of(ARGV[1], ARGV[i])) == 0 then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return 'ok'
