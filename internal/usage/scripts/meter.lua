-- The tenant's meters, in one hash without expiry. e: epoch, f: last fence, mi/mc: minute and its locks, hi/hc: hour and
-- its locks, me/oc: end of the month (s) and its locks, by: bytes of records, sm: minute up to which expired bytes were
-- given back. H<hour>: the locks of an hour gone by, until the roll-up in Postgres has them.
local METER_FIELDS = {'e', 'f', 'mi', 'mc', 'hi', 'hc', 'me', 'oc', 'by', 'sm'}
local HOURS_KEPT = 48
-- Bytes are given back by the minute for records of up to two hours, by the hour for longer ones.
local MINUTE_BUCKETS = 122
local HOUR_BUCKETS = 722

-- The month's end for a second, in UTC: the civil calendar from day counts, as in
-- https://howardhinnant.github.io/date_algorithms.html (civil_from_days and days_from_civil).
local function month_end(sec)
  local z = math.floor(sec / 86400) + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local next_mp = mp + 1
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

-- Reads the meters with the windows moved to now; nil when the store has no meters of this tenant.
-- A clock that goes back stays in the window it was in.
local function read_meter(meta_key, bytes_key, sec)
  local values = redis.call('HMGET', meta_key, unpack(METER_FIELDS))
  if not values[1] then return nil end
  local meter = {f = tonumber(values[2]), mi = tonumber(values[3]), mc = tonumber(values[4]), hi = tonumber(values[5]),
    hc = tonumber(values[6]), me = tonumber(values[7]), oc = tonumber(values[8]), by = tonumber(values[9])}
  local minute = math.floor(sec / 60)
  if minute > meter.mi then
    meter.mi = minute
    meter.mc = 0
  end
  if sec >= meter.me then
    meter.me = month_end(sec)
    meter.oc = 0
  end
  local hour = math.floor(sec / 3600)
  if hour > meter.hi then
    if meter.hc > 0 then redis.call('HSET', meta_key, 'H' .. meter.hi, meter.hc) end
    redis.call('HDEL', meta_key, 'H' .. (hour - HOURS_KEPT))
    meter.hi = hour
    meter.hc = 0
  end
  local swept = tonumber(values[10])
  if minute > swept then
    local fields = {}
    for bucket = swept, math.min(minute - 1, swept + MINUTE_BUCKETS) do fields[#fields + 1] = 'm' .. bucket end
    local swept_hour = math.floor(swept / 60)
    for bucket = swept_hour, math.min(hour - 1, swept_hour + HOUR_BUCKETS) do fields[#fields + 1] = 'h' .. bucket end
    for _, amount in ipairs(redis.call('HMGET', bytes_key, unpack(fields))) do
      if amount then meter.by = meter.by - tonumber(amount) end
    end
    redis.call('HDEL', bytes_key, unpack(fields))
    redis.call('HSET', meta_key, 'sm', minute, 'by', meter.by, 'hi', meter.hi, 'hc', meter.hc)
  end
  return meter
end

-- Counts one acquisition and gives its fence: above every earlier one of the tenant, also after the store lost its data.
local function count_lock(meta_key, meter, micros)
  local fence = string.format('%.0f', math.max(meter.f + 1, micros))
  redis.call('HSET', meta_key, 'f', fence, 'mi', meter.mi, 'mc', meter.mc + 1, 'hi', meter.hi, 'hc', meter.hc + 1,
    'me', meter.me, 'oc', meter.oc + 1)
  return fence
end

local function add_bytes(meta_key, bytes_key, bucket, bytes)
  redis.call('HINCRBY', bytes_key, bucket, bytes)
  redis.call('HINCRBY', meta_key, 'by', bytes)
end

-- Gives a record's bytes back before its time. A bucket that was swept is gone, and its bytes with it.
local function take_bytes(meta_key, bytes_key, bucket, bytes)
  if redis.call('HEXISTS', bytes_key, bucket) == 1 then add_bytes(meta_key, bytes_key, bucket, -bytes) end
end

local function bucket_of(expiry_ms, ttl_ms)
  if ttl_ms <= 7200000 then return 'm' .. math.floor(expiry_ms / 60000) end
  return 'h' .. math.floor(expiry_ms / 3600000)
end
