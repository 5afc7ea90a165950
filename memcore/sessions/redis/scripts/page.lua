-- Reads a page of the index, the least recently appended first, with the length of each session.
--
-- KEYS  index
-- ARGV  prefix, lowest score, size of the page
-- Gives session id, score, length, and so on; a length of 0 is a session that has expired.

local rows = {}
local page = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for i = 1, #page, 2 do
  rows[#rows + 1] = page[i]
  rows[#rows + 1] = page[i + 1]
  rows[#rows + 1] = redis.call('LLEN', key_of(ARGV[1], page[i]))
end
return rows
