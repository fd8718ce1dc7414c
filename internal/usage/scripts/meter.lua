-- Meters of locks and record bytes of one tenant, and the windows that both meters share. One packed string without expiry, because
-- every acquisition reads and writes all of it:
--   f: last fence, mi/mc: minute and its count, hi/hc: hour and its count, me/oc: end of the month (s) and its count,
--   by: bytes of records and locks, sm: minute up to which expired bytes were returned, e: epoch.
-- The hash beside it: m<minute>, h<hour>: bytes of entries (records and locks) that expire then; M, O: last closed minute and month
-- with their counts, for soft limits; H<hour>: count of a closed hour until the rollup to Postgres has it.
local HOURS_KEPT = 48
-- Memory that Redis uses for an entry beyond the text of its key and value: dictionary entries, hash slots, headers, expiry.
-- Measured on Redis 7.0.15 with jemalloc as growth of used_memory: 114 to 145 bytes for texts that fill their size class. The class
-- of a longer text can add up to a quarter of its length, which is not counted.
local ENTRY_BYTES = 144
-- Bytes are returned by the minute for entries of up to two hours, by the hour for longer ones.
local MINUTELY_TTL_MS = 7200000
-- After a longer silence the buckets are searched instead of named one by one.
local NAMED_MINUTES = 60

local function unpack_meter(packed)
  local f, mi, mc, hi, hc, me, oc, by, sm = struct.unpack('>ddddddddd', packed)
  return {f = f, mi = mi, mc = mc, hi = hi, hc = hc, me = me, oc = oc, by = by, sm = sm, e = string.sub(packed, 73)}
end

local function write_meter(meta_key, m)
  redis.call('SET', meta_key, struct.pack('>ddddddddd', m.f, m.mi, m.mc, m.hi, m.hc, m.me, m.oc, m.by, m.sm) .. m.e)
end

-- End of the UTC month that holds a second.
local function month_end(sec)
  local function days_to_year(year)
    local y = year - 1
    return y * 365 + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) - 719162
  end
  local day = math.floor(sec / 86400)
  local year = 1970 + math.floor(day / 365)
  while days_to_year(year) > day do year = year - 1 end
  local ending, leap_day = days_to_year(year), days_to_year(year + 1) - days_to_year(year) - 365
  for _, days in ipairs({31, 28 + leap_day, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}) do
    ending = ending + days
    if ending > day then return ending * 86400 end
  end
end

-- Buckets that ended before this minute, since the last sweep.
local function ended_buckets(meter, side_key, minute, hour)
  local ended = {}
  if minute - meter.sm > NAMED_MINUTES then
    for _, field in ipairs(redis.call('HKEYS', side_key)) do
      local unit, at = string.match(field, '^([mh])(%d+)$')
      if unit and tonumber(at) < (unit == 'm' and minute or hour) then ended[#ended + 1] = field end
    end
    return ended
  end
  for bucket = meter.sm, minute - 1 do ended[#ended + 1] = 'm' .. bucket end
  for bucket = math.floor(meter.sm / 60), hour - 1 do ended[#ended + 1] = 'h' .. bucket end
  return ended
end

-- Returns the bytes of the buckets that ended since the last sweep.
local function sweep(meter, side_key, minute, hour)
  for _, field in ipairs(ended_buckets(meter, side_key, minute, hour)) do
    local bytes = redis.call('HGET', side_key, field)
    if bytes then
      meter.by = meter.by - tonumber(bytes)
      redis.call('HDEL', side_key, field)
    end
  end
  meter.sm = minute
end

-- Moves the windows of a meter to a later minute. Closed windows go to the hash; hours that waited for two days are removed.
local function move_windows(m, hash_key, sec)
  local hour = math.floor(sec / 3600)
  if m.mc > 0 then redis.call('HSET', hash_key, 'M', m.mi .. ' ' .. m.mc) end
  m.mi, m.mc = math.floor(sec / 60), 0
  if sec >= m.me then
    redis.call('HSET', hash_key, 'O', m.me .. ' ' .. m.oc)
    m.me, m.oc = month_end(sec), 0
  end
  if hour <= m.hi then return end
  for _, field in ipairs(redis.call('HKEYS', hash_key)) do
    local closed = tonumber(string.match(field, '^H(%d+)$') or hour)
    if closed <= hour - HOURS_KEPT then redis.call('HDEL', hash_key, field) end
  end
  if m.hc > 0 then redis.call('HSET', hash_key, 'H' .. m.hi, m.hc) end
  m.hi, m.hc = hour, 0
end

-- Reads the meters of locks and moves their windows to now; nil if Redis has none for this tenant. A clock that goes back stays in
-- its window, so that it grants no new quota.
local function read_meter(meta_key, side_key, sec)
  local packed = redis.call('GET', meta_key)
  if not packed then return nil end
  local meter = unpack_meter(packed)
  local minute = math.floor(sec / 60)
  if minute <= meter.mi then return meter end
  move_windows(meter, side_key, sec)
  if minute > meter.sm then sweep(meter, side_key, minute, math.floor(sec / 3600)) end
  write_meter(meta_key, meter)
  return meter
end

-- Counts locks. Takes effect with write_meter.
local function count_locks(meter, amount)
  meter.mc, meter.hc, meter.oc = meter.mc + amount, meter.hc + amount, meter.oc + amount
end

-- Counts one acquisition and returns its fence, which is above every earlier one of the tenant, also after the store lost its data.
-- `fence_elsewhere`: the last one in Postgres, whose fences never have the remainder 15, if the tenant's records have moved.
-- Takes effect with write_meter.
local function count_lock(meter, micros, fence_elsewhere)
  meter.f = math.max(meter.f + 1, micros)
  if fence_elsewhere then
    local least = math.max(meter.f, fence_elsewhere + 1)
    meter.f = least + 15 - least % 16
  end
  count_locks(meter, 1)
  return string.format('%.0f', meter.f)
end

-- Bucket of an entry that is written now. A clock that went back must not choose a bucket that was swept: its bytes would never be
-- returned.
local function bucket_of(meter, expiry_ms, ttl_ms)
  if ttl_ms <= MINUTELY_TTL_MS then return 'm' .. math.max(math.floor(expiry_ms / 60000), meter.sm) end
  return 'h' .. math.max(math.floor(expiry_ms / 3600000), math.floor(meter.sm / 60))
end

-- Bytes counted for an entry.
local function entry_bytes(key, value_bytes)
  return ENTRY_BYTES + #key + value_bytes
end

-- Counts the entry `to` in place of `from`; nil for none. Both have `bytes` and a `bucket`, which is nil for an entry that was never
-- counted. Takes effect with write_meter.
local function move_bytes(meter, side_key, from, to)
  local added = to and to.bytes or 0
  if from and from.bucket then
    if to and to.bucket == from.bucket then
      added = added - from.bytes
    elseif redis.call('HINCRBY', side_key, from.bucket, -from.bytes) >= 0 then
      meter.by = meter.by - from.bytes
    else
      -- The bucket was swept, and these bytes with it.
      redis.call('HDEL', side_key, from.bucket)
    end
  end
  if added ~= 0 then
    redis.call('HINCRBY', side_key, to.bucket, added)
    meter.by = meter.by + added
  end
end
