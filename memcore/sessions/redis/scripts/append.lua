-- Appends batches of turns, each to its session, and renews these sessions.
--
-- KEYS  index, then list and seen of each append
-- ARGV  prefix, ttl in ms, retry window, time in µs after which nothing is done (0: none), then for each
--       append: session id, number of turns, and for each turn: id, fingerprint, tokens, json
-- Gives the time in µs and one reply per append: {'ok', length, tokens} | {'conflict', turn id} |
--       {'error', message}; no replies if it came too late.
-- One append that fails does not touch its neighbours.

local prefix, ttl, window, not_after = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local index = KEYS[1]
redis.call('ZCARD', index) -- A key of another type fails here, before anything is written.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if not_after > 0 and now > not_after then
  return {now, {}}
end
local deadline = string.format('%.0f', math.floor(now / 1000) + ttl)

local SLICE = 1000 -- unpack() fails on some thousands of values

local function unknown_turns(seen, turns)
  local new = {}
  for _, turn in ipairs(turns) do
    local mark = redis.call('HGET', seen, 't' .. turn.id)
    if not mark then
      new[#new + 1] = turn
    elseif mark ~= turn.mark then
      return nil, turn.id
    end
  end
  return new
end

-- `seen` is a ring of the newest turn ids: slot → id, and id → fingerprint.
local function note(seen, seq, turn)
  local slot = 's' .. string.format('%.0f', seq % window)
  local oldest = redis.call('HGET', seen, slot)
  if oldest then
    redis.call('HDEL', seen, 't' .. oldest)
  end
  redis.call('HSET', seen, slot, turn.id, 't' .. turn.id, turn.mark)
end

local function push(list, seen, turns)
  local last = redis.call('LINDEX', list, -1)
  local seq, before = now, 0
  if last then
    local element = parse(last)
    seq, before = element.seq + 1, element.before + element.tokens
  elseif redis.call('EXISTS', seen) == 1 then
    -- Both expire at the same instant: the server has evicted one of them.
    error({err = 'LAYOUT turns are missing'})
  end
  local new, conflict = unknown_turns(seen, turns)
  if conflict then
    return conflict
  end
  local elements = {}
  for i, turn in ipairs(new) do
    elements[i] = element_of(seq + i - 1, before, turn.tokens, 'm', turn.mark, turn.json)
    before = before + turn.tokens
  end
  for from = 1, #elements, SLICE do
    redis.call('RPUSH', list, unpack(elements, from, math.min(from + SLICE - 1, #elements)))
  end
  for i, turn in ipairs(new) do
    note(seen, seq + i - 1, turn)
  end
end

local function append(list, seen, session_id, turns)
  local conflict = push(list, seen, turns)
  if conflict then
    return {'conflict', conflict}
  end
  local length, tokens = size_of(list)
  redis.call('PEXPIREAT', list, deadline)
  redis.call('PEXPIREAT', seen, deadline)
  redis.call('ZADD', index, 'GT', string.format('%.0f', now), session_id) -- Never back, as a clock may go.
  return {'ok', length, tokens}
end

local function prune()
  local horizon = string.format('(%.0f', now - ttl * 1000)
  for _, session_id in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', horizon, 'LIMIT', 0, 16)) do
    if redis.call('EXISTS', key_of(prefix, session_id)) == 0 then
      redis.call('ZREM', index, session_id)
    end
  end
end

local replies, at = {}, 5
for i = 1, (#KEYS - 1) / 2 do
  local session_id, count = ARGV[at], tonumber(ARGV[at + 1])
  local turns = {}
  for j = 1, count do
    local from = at + 2 + (j - 1) * 4
    turns[j] = {id = ARGV[from], mark = ARGV[from + 1], tokens = tonumber(ARGV[from + 2]), json = ARGV[from + 3]}
  end
  at = at + 2 + count * 4
  local fine, reply = pcall(append, KEYS[2 * i], KEYS[2 * i + 1], session_id, turns)
  replies[i] = fine and reply or {'error', type(reply) == 'table' and reply.err or tostring(reply)}
end
if redis.call('EXISTS', index) == 1 then
  -- GT alone does nothing on a key without an expiry, NX alone would never renew it.
  redis.call('PEXPIREAT', index, deadline, 'NX')
  redis.call('PEXPIREAT', index, deadline, 'GT')
  prune()
end
return {now, replies}
