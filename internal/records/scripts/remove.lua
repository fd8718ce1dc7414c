-- Without a token removes the record and leaves a lock alone; with one releases that lock and nothing else.
-- KEYS: meta, side, entry. ARGV: token (empty for none). One atomic step; again it finds nothing and changes nothing.
-- A released lock's fence and the time of its release are told, for the history.
local sec, micros = clock()
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local token = ARGV[1]
local entry = redis.call('GET', KEYS[3])
if not entry then return {'removed', 0} end
if is_record(entry) then
  if token ~= '' then return {'removed', 0} end
  local _, _, _, bucket, bytes = string.match(entry, RECORD_PATTERN)
  redis.call('DEL', KEYS[3])
  -- A bucket that was swept is gone, and the record's bytes with it.
  if redis.call('HEXISTS', KEYS[2], bucket) == 1 then
    redis.call('HINCRBY', KEYS[2], bucket, -bytes)
    meter.by = meter.by - bytes
    write_meter(KEYS[1], meter)
  end
  return {'removed', 1}
end

local _, owner, fence, ttl_ms, lock_ms, taken_over, waited, _, fingerprint = string.match(entry, LOCK_PATTERN)
if token == '' or token ~= owner then return {'removed', 0} end
local now_ms = math.floor(micros / 1000)
if taken_over == '1' then
  -- Over at 0, so that a clock that goes back does not make a free key busy.
  write_lock(KEYS[3], now_ms, 0, '', fence, ttl_ms, lock_ms, '1', '0', '', fingerprint)
else
  redis.call('DEL', KEYS[3])
end
if waited == '1' then wake(KEYS[1], KEYS[3]) end
return {'removed', 1, tonumber(fence), now_ms}
