-- Without a token removes the record and leaves a lock alone; with one releases that lock and nothing else.
-- KEYS: meta, bytes, entry. ARGV: token (empty for none). One atomic step; again it finds nothing and changes nothing.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
local token = ARGV[1]
local entry = redis.call('GET', KEYS[3])
if not entry then return {'removed', 0} end
if is_record(entry) then
  if token ~= '' then return {'removed', 0} end
  local _, _, _, bucket, bytes = string.match(entry, RECORD_PATTERN)
  redis.call('DEL', KEYS[3])
  take_bytes(KEYS[1], KEYS[2], bucket, tonumber(bytes))
  return {'removed', 1}
end

local _, owner, fence, ttl_ms, lock_ms, taken_over, waited, _, fingerprint = string.match(entry, LOCK_PATTERN)
if token == '' or token ~= owner then return {'removed', 0} end
if taken_over == '1' then
  local _, micros = clock()
  local now_ms = math.floor(micros / 1000)
  write_lock(KEYS[3], now_ms, now_ms, '', fence, ttl_ms, lock_ms, '1', '0', '', fingerprint)
else
  redis.call('DEL', KEYS[3])
end
if waited == '1' then wake(KEYS[1], KEYS[3]) end
return {'removed', 1}
