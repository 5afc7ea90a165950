-- Reads a page of the index, the least recently appended first, with the length of each session.
--
-- KEYS  index
-- ARGV  prefix, lowest score, size of the page
-- Gives session id, score, length, and so on; a length of 0 is a session that has expired, -1 a key that is
-- not a list.

local rows = {}
local page = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for i = 1, #page, 2 do
  rows[#rows + 1] = page[i]
  rows[#rows + 1] = page[i + 1]
  local length = redis.pcall('LLEN', key_of(ARGV[1], page[i]))
  rows[#rows + 1] = type(length) == 'table' and -1 or length
end
return rows
