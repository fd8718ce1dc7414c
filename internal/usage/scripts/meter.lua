-- The tenant's meters: one packed string without expiry, since every acquisition reads and writes all of it.
--   f: last fence, mi/mc: minute and its locks, hi/hc: hour and its locks, me/oc: end of the month (s) and its locks,
--   by: bytes of records and locks, sm: minute up to which expired bytes were given back, e: epoch.
-- Beside it a hash: m<minute>, h<hour>: bytes of entries (records and locks) that expire then; H<hour>: locks of an hour gone by, until the
-- roll-up in Postgres has them; M, O: the last minute and month gone by, each with its locks, for what warns of soft limits.
local HOURS_KEPT = 48
-- Memory that Redis takes for an entry beyond the text of its key and value: dictionary entries, hash slots, headers, its expiry.
-- Measured on Redis 7.0.15 with jemalloc as growth of used_memory: 114 to 145 bytes for texts that fill their size class. The class
-- of a longer text can add up to a quarter of its length, which is not counted.
local ENTRY_BYTES = 144
-- Bytes are given back by the minute for entries of up to two hours, by the hour for longer ones.
local MINUTELY_TTL_MS = 7200000
-- After a longer silence the buckets are looked for instead of named one by one.
local NAMED_MINUTES = 60

local function unpack_meter(packed)
  local f, mi, mc, hi, hc, me, oc, by, sm = struct.unpack('>ddddddddd', packed)
  return {f = f, mi = mi, mc = mc, hi = hi, hc = hc, me = me, oc = oc, by = by, sm = sm, e = string.sub(packed, 73)}
end

local function write_meter(meta_key, m)
  redis.call('SET', meta_key, struct.pack('>ddddddddd', m.f, m.mi, m.mc, m.hi, m.hc, m.me, m.oc, m.by, m.sm) .. m.e)
end

-- The month's end for a second, in UTC: the civil calendar from day counts, as in
-- https://howardhinnant.github.io/date_algorithms.html (civil_from_days and days_from_civil).
local function month_end(sec)
  local z = math.floor(sec / 86400) + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local next_mp = math.floor((5 * doy + 2) / 153) + 1
  local year = yoe + era * 400
  if next_mp == 12 then
    next_mp = 0
    year = year + 1
  end
  local next_era = math.floor(year / 400)
  local next_yoe = year - next_era * 400
  local next_doy = math.floor((153 * next_mp + 2) / 5)
  local next_doe = next_yoe * 365 + math.floor(next_yoe / 4) - math.floor(next_yoe / 100) + next_doy
  return (next_era * 146097 + next_doe - 719468) * 86400
end

-- The buckets that were over before this minute, counted from the last sweep.
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

-- Gives back the bytes of the buckets that ended since the last time.
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

-- Closes the running hour: its count waits in the hash for the roll-up, and counts that waited for two days go.
local function close_hour(meter, side_key, hour)
  for _, field in ipairs(redis.call('HKEYS', side_key)) do
    local closed = tonumber(string.match(field, '^H(%d+)$') or hour)
    if closed <= hour - HOURS_KEPT then redis.call('HDEL', side_key, field) end
  end
  if meter.hc > 0 then redis.call('HSET', side_key, 'H' .. meter.hi, meter.hc) end
  meter.hi, meter.hc = hour, 0
end

-- Reads the meters with their windows moved to now; nil when the store has none of this tenant. What was moved counts
-- once write_meter was called, except that a swept bucket and a closed hour are written here and lead to a write at once.
-- A clock that goes back stays in the window it was in.
local function read_meter(meta_key, side_key, sec)
  local packed = redis.call('GET', meta_key)
  if not packed then return nil end
  local meter = unpack_meter(packed)
  local minute = math.floor(sec / 60)
  if minute <= meter.mi then return meter end
  local hour = math.floor(sec / 3600)
  if meter.mc > 0 then redis.call('HSET', side_key, 'M', meter.mi .. ' ' .. meter.mc) end
  meter.mi, meter.mc = minute, 0
  if sec >= meter.me then
    redis.call('HSET', side_key, 'O', meter.me .. ' ' .. meter.oc)
    meter.me, meter.oc = month_end(sec), 0
  end
  if hour > meter.hi then close_hour(meter, side_key, hour) end
  if minute > meter.sm then sweep(meter, side_key, minute, hour) end
  write_meter(meta_key, meter)
  return meter
end

-- Counts one acquisition and gives its fence: above every earlier one of the tenant, also after the store lost its data.
-- It holds after write_meter.
local function count_lock(meter, micros)
  meter.f = math.max(meter.f + 1, micros)
  meter.mc, meter.hc, meter.oc = meter.mc + 1, meter.hc + 1, meter.oc + 1
  return string.format('%.0f', meter.f)
end

-- The bucket of an entry that is written now. A clock that went back must not put it into one that was swept already,
-- which would never be given back.
local function bucket_of(meter, expiry_ms, ttl_ms)
  if ttl_ms <= MINUTELY_TTL_MS then return 'm' .. math.max(math.floor(expiry_ms / 60000), meter.sm) end
  return 'h' .. math.max(math.floor(expiry_ms / 3600000), math.floor(meter.sm / 60))
end

-- Bytes that an entry is counted as.
local function entry_bytes(key, value_bytes)
  return ENTRY_BYTES + #key + value_bytes
end

-- Counts an entry that is written (`to`, nil for none) in place of the one that it replaces (`from`, nil for none). Both have `bytes`
-- and a `bucket`, which is nil for an entry that was never counted. It holds after write_meter.
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
