-- Comes before every script: how an element of a session's list is laid out.
--
-- An element is a header line and the turn as JSON. The header is "seq before tokens kind mark":
--   seq     numbers the elements of one life of the session; starts at the server's µs, so lives differ
--   before  tokens of all that was pushed before it, so that the size of a history is a difference of two
--   tokens  its own weight
--   kind    m for a message, s for a summary
--   mark    fingerprint of the turn, or the attempt that last rewrote the head of the list
-- Numbers go through %.0f: Lua prints large ones with an exponent otherwise.

-- In µs.
local function server_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function header_of(element)
  return string.match(element, '^[^\n]*')
end

local function parse(element)
  local seq, before, tokens, kind, mark = string.match(element, '^(%d+) (%-?%d+) (%d+) ([ms]) (%x+)\n')
  if not seq then
    error({err = 'LAYOUT element without a header of version 1'})
  end
  return {seq = tonumber(seq), before = tonumber(before), tokens = tonumber(tokens), kind = kind, mark = mark}
end

local function element_of(seq, before, tokens, kind, mark, json)
  return string.format('%.0f %.0f %.0f %s %s\n', seq, before, tokens, kind, mark) .. json
end

-- Length and tokens of a list.
local function size_of(list)
  local length = redis.call('LLEN', list)
  if length == 0 then
    return 0, 0
  end
  local from, to = parse(redis.call('LINDEX', list, 0)), parse(redis.call('LINDEX', list, -1))
  return length, to.before + to.tokens - from.before
end

local escapes = {['{'] = '%7B', ['}'] = '%7D', ['%'] = '%25'}

local function key_of(prefix, session_id)
  return prefix .. '{' .. string.gsub(session_id, '[{}%%]', escapes) .. '}'
end
