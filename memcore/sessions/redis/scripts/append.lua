-- Appends batches of turns, each to its session, and renews these sessions.
--
-- KEYS  index, then list and seen of each append
-- ARGV  prefix, ttl in ms, retry window, then for each append: session id, time in µs after which nothing is
--       done, number of turns, and for each turn: id, fingerprint, tokens, json
-- Gives the time in µs and one reply per append: {'ok', length, tokens} | {'late'} | {'conflict', turn id} |
--       {'error', message}.
--
-- One append that fails does not touch its neighbours. Within one everything that can fail comes before the
-- first write. Calls of the server are few, for each costs more than the work that it does.

local index, prefix, ttl, window = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = server_time()
local deadline = string.format('%.0f', math.floor(now / 1000) + ttl)
local score = string.format('%.0f', now)

local SLICE = 1000 -- unpack() fails on some thousands of values
local TURN = 4 -- arguments of a turn

-- The turns that `seen` does not know, as places in ARGV, each with the turn id that it pushes out of the ring;
-- or nil and the id of a turn that is known with other content. `seen` has slot → id, and id → fingerprint.
local function unknown_turns(seen, seq, from, to)
  local new, pushed_out = {}, {}
  for at = from, to, TURN do
    local slot = string.format('s%.0f', (seq + #new) % window)
    local found = redis.call('HMGET', seen, 't' .. ARGV[at], slot)
    if not found[1] then
      new[#new + 1] = at
      -- A batch longer than the ring pushes out turns of its own.
      pushed_out[#new] = #new > window and ARGV[new[#new - window]] or found[2]
    elseif found[1] ~= ARGV[at + 1] then
      return nil, ARGV[at]
    end
  end
  return new, pushed_out
end

-- Gives what `before` will be for the next element.
local function push(list, seen, seq, before, new, pushed_out)
  local elements = {}
  for i, at in ipairs(new) do
    local tokens, place = tonumber(ARGV[at + 2]), seq + i - 1
    elements[i] = element_of(place, before, tokens, 'm', ARGV[at + 1], ARGV[at + 3])
    before = before + tokens
    if pushed_out[i] then
      redis.call('HDEL', seen, 't' .. pushed_out[i])
    end
    redis.call('HSET', seen, string.format('s%.0f', place % window), ARGV[at], 't' .. ARGV[at], ARGV[at + 1])
  end
  for from = 1, #elements, SLICE do
    redis.call('RPUSH', list, unpack(elements, from, math.min(from + SLICE - 1, #elements)))
  end
  return before
end

local function append(list, seen, from, to)
  if now > tonumber(ARGV[from - 2]) then
    return {'late'}
  end
  local last = redis.call('LINDEX', list, -1)
  local seq, before = now, 0
  if last then
    local element = parse(last)
    seq, before = element.seq + 1, element.before + element.tokens
  elseif redis.call('EXISTS', seen) == 1 then
    -- Both expire at the same instant: the server has evicted one of them.
    error({err = 'LAYOUT turns are missing'})
  end
  local new, pushed_out = unknown_turns(seen, seq, from, to)
  if not new then
    return {'conflict', pushed_out}
  end
  redis.call('ZADD', index, 'GT', score, ARGV[from - 3]) -- Never back, as a clock may go.
  before = push(list, seen, seq, before, new, pushed_out)
  redis.call('PEXPIREAT', list, deadline)
  redis.call('PEXPIREAT', seen, deadline)
  local first = parse(redis.call('LINDEX', list, 0))
  return {'ok', redis.call('LLEN', list), before - first.before}
end

local function prune()
  local horizon = string.format('(%.0f', now - ttl * 1000)
  for _, session_id in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', horizon, 'LIMIT', 0, 16)) do
    if redis.call('EXISTS', key_of(prefix, session_id)) == 0 then
      redis.call('ZREM', index, session_id)
    end
  end
end

local replies, at, stored = {}, 4, false
for i = 1, (#KEYS - 1) / 2 do
  local from = at + 3
  at = from + tonumber(ARGV[at + 2]) * TURN
  local fine, reply = pcall(append, KEYS[2 * i], KEYS[2 * i + 1], from, at - 1)
  replies[i] = fine and reply or {'error', type(reply) == 'table' and reply.err or tostring(reply)}
  stored = stored or replies[i][1] == 'ok'
end
if stored then
  -- GT does nothing on a key without an expiry, NX alone would never renew it.
  if redis.call('PEXPIREAT', index, deadline, 'GT') == 0 then
    redis.call('PEXPIREAT', index, deadline, 'NX')
  end
  prune()
end
return {now, replies}
