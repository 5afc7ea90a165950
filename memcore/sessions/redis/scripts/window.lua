-- Reads the summary, if there is one, and the last elements, of one instant.
--
-- KEYS  list, seen
-- ARGV  how many elements from the end, or -1 for all
-- Gives elements, oldest first.

local list, limit = KEYS[1], tonumber(ARGV[1])
local length = redis.call('LLEN', list)
if length == 0 and redis.call('EXISTS', KEYS[2]) == 1 then
  -- Both expire at the same instant: the server has evicted one of them.
  error({err = 'LAYOUT turns are missing'})
end
if limit < 0 or limit >= length then
  return redis.call('LRANGE', list, 0, -1)
end
local elements = {}
if limit > 0 then
  elements = redis.call('LRANGE', list, -limit, -1)
end
local first = redis.call('LINDEX', list, 0)
if parse(first).kind == 's' then
  table.insert(elements, 1, first)
end
return elements
