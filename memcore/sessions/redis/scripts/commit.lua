-- Rewrites the head of a session's list, if what was read is still there: its first and its last element.
--
-- KEYS  list
-- ARGV  header of element 0 as read, header of element cut-1 as read, cut, attempt, and for a new head:
--       tokens, json
-- Gives 1, also when this attempt has landed already, or 0 if something else is there.

local list = KEYS[1]
local first_read, last_read, cut, attempt = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local first = redis.call('LINDEX', list, 0)
if not first then
  return 0
end
if parse(first).mark == attempt then
  return 1
end
local last = redis.call('LINDEX', list, cut - 1)
local kept = redis.call('LINDEX', list, cut)
if header_of(first) ~= first_read or not kept or header_of(last) ~= last_read then
  return 0
end

-- The list is never empty in between, so it keeps its expiry.
if ARGV[6] then
  local place, tokens = parse(last), tonumber(ARGV[5])
  local before = place.before + place.tokens - tokens
  redis.call('LSET', list, cut - 1, element_of(place.seq, before, tokens, 's', attempt, ARGV[6]))
  redis.call('LTRIM', list, cut - 1, -1)
else
  local place = parse(kept)
  local json = string.sub(kept, #header_of(kept) + 2)
  redis.call('LSET', list, cut, element_of(place.seq, place.before, place.tokens, place.kind, attempt, json))
  redis.call('LTRIM', list, cut, -1)
end
return 1
