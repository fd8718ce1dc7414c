-- The spool of events in Redis; one shard. Streams `events` and `dead` have entries with the fields id, facts, payload and tenant, dead
-- ones a reason first. `bytes` is a hash with the bytes of each stream, `tenants` one with the waiting bytes of each tenant, `lease`
-- holds the token of the draining process. Every script is this file and one call of a function below.

local function size_of(fields)
  local size = 0
  for at = 2, #fields, 2 do size = size + #fields[at] end
  return size
end

-- Value of a field; '' if an entry from elsewhere lacks it.
local function value_of(fields, name)
  for at = 1, #fields, 2 do
    if fields[at] == name then return fields[at + 1] end
  end
  return ''
end

-- Bytes of a stream. 0 for an empty one, so that the count is right again after an operator emptied the stream.
local function bytes_of(bytes_key, stream_key, field)
  if redis.call('XLEN', stream_key) == 0 then return 0 end
  return tonumber(redis.call('HGET', bytes_key, field) or 0)
end

local function write_bytes(bytes_key, field, bytes)
  redis.call('HSET', bytes_key, field, string.format('%.0f', math.max(bytes, 0)))
end

-- Subtracts an entry from its tenant's share and removes the share at 0.
local function release_share(tenants_key, tenant, size)
  if redis.call('HEXISTS', tenants_key, tenant) == 0 then return end
  if redis.call('HINCRBY', tenants_key, tenant, -size) <= 0 then redis.call('HDEL', tenants_key, tenant) end
end

-- Adds events in order, each if there is room for it and its tenant. Atomic, so the bounds are exact with any number of processes. A
-- repeat adds them again, which costs room until they are drained.
-- KEYS: events, dead, bytes, tenants. ARGV: bytes_max of both streams, share_max of a tenant, then id, facts, payload, tenant of each.
-- Returns for each 1, 0 (spool full) or -1 (share of the tenant full).
local function append()
  local bytes_max, share_max = tonumber(ARGV[1]), tonumber(ARGV[2])
  if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[4]) end
  local bytes = bytes_of(KEYS[3], KEYS[1], 'events')
  local dead_bytes = bytes_of(KEYS[3], KEYS[2], 'dead')
  local held, replies = {}, {}
  for at = 3, #ARGV, 4 do
    local tenant = ARGV[at + 3]
    local size = #ARGV[at] + #ARGV[at + 1] + #ARGV[at + 2] + #tenant
    held[tenant] = held[tenant] or tonumber(redis.call('HGET', KEYS[4], tenant) or 0)
    local reply = 1
    if bytes + dead_bytes + size > bytes_max then
      reply = 0
    elseif held[tenant] + size > share_max then
      reply = -1
    else
      redis.call('XADD', KEYS[1], '*', 'id', ARGV[at], 'facts', ARGV[at + 1], 'payload', ARGV[at + 2], 'tenant', tenant)
      bytes = bytes + size
      held[tenant] = redis.call('HINCRBY', KEYS[4], tenant, size)
    end
    replies[#replies + 1] = reply
  end
  write_bytes(KEYS[3], 'events', bytes)
  return replies
end

-- Takes or renews the lease and reads entries within the bounds, at least one. Idempotent.
-- KEYS: events, lease. ARGV: lease token, its ms, first entry id, entries_max, bytes_max.
-- Returns 'empty', 'busy' (leased by another process), or 'entries' and their list.
local function read()
  if redis.call('XLEN', KEYS[1]) == 0 then return {'empty'} end
  local owner = redis.call('GET', KEYS[2])
  if owner and owner ~= ARGV[1] then return {'busy'} end
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  local entries, bytes, from = {}, 0, ARGV[3]
  while #entries < tonumber(ARGV[4]) do
    -- One at a time: only the entry itself tells its size.
    local entry = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
    if not entry then break end
    bytes = bytes + size_of(entry[2])
    if bytes > tonumber(ARGV[5]) and #entries > 0 then break end
    entries[#entries + 1] = entry
    from = '(' .. entry[1]
  end
  return {'entries', entries}
end

-- Removes entries and releases their shares; those with a reason move to the dead stream in the same step. Skips an entry that is gone
-- or whose id another event has since Redis came back with older data. Idempotent.
-- KEYS: events, dead, bytes, tenants. ARGV: entry id, event id, reason or '' of each. Returns 1 or 0 for each.
local function remove()
  local bytes = bytes_of(KEYS[3], KEYS[1], 'events')
  local dead_bytes = bytes_of(KEYS[3], KEYS[2], 'dead')
  local replies = {}
  for at = 1, #ARGV, 3 do
    local entry = redis.call('XRANGE', KEYS[1], ARGV[at], ARGV[at], 'COUNT', 1)[1]
    local is_ours = entry ~= nil and value_of(entry[2], 'id') == ARGV[at + 1]
    if is_ours then
      local size = size_of(entry[2])
      if ARGV[at + 2] ~= '' then
        redis.call('XADD', KEYS[2], '*', 'reason', ARGV[at + 2], unpack(entry[2]))
        dead_bytes = dead_bytes + size
      end
      redis.call('XDEL', KEYS[1], ARGV[at])
      bytes = bytes - size
      release_share(KEYS[4], value_of(entry[2], 'tenant'), size)
    end
    replies[#replies + 1] = is_ours and 1 or 0
  end
  write_bytes(KEYS[3], 'events', bytes)
  write_bytes(KEYS[3], 'dead', dead_bytes)
  return replies
end

-- Releases the lease, unless another process has it. Idempotent. KEYS: lease. ARGV: lease token.
local function release()
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
end

-- Returns entries, bytes and age of the oldest (ms) of the waiting stream, then entries and bytes of the dead one.
-- KEYS: events, dead, bytes.
local function stats()
  local oldest_ms = 0
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if oldest then
    local time = redis.call('TIME')
    -- An entry id starts with the time in ms at which the server added it.
    oldest_ms = math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(string.match(oldest[1], '^%d+')))
  end
  return {
    redis.call('XLEN', KEYS[1]), bytes_of(KEYS[3], KEYS[1], 'events'), oldest_ms,
    redis.call('XLEN', KEYS[2]), bytes_of(KEYS[3], KEYS[2], 'dead'),
  }
end

