-- Reads the summary, if there is one, and the last elements, of one instant.
--
-- KEYS  list
-- ARGV  how many elements from the end, at least 0
-- Gives elements, oldest first.

local list, limit = KEYS[1], tonumber(ARGV[1])
local elements = {}
if limit > 0 then
  elements = redis.call('LRANGE', list, -limit, -1)
end
if redis.call('LLEN', list) > limit then
  local first = redis.call('LINDEX', list, 0)
  if parse(first).kind == 's' then
    table.insert(elements, 1, first)
  end
end
return elements
