-- Saves the result: the first completed record wins. One atomic step; the same call again changes nothing.
-- KEYS: meta, side, entry. ARGV: token (empty for none), ttlMs (empty: the lock's), ttlMs when there is no lock, the
-- record's JSON, bytes that the caller's scope and key add. `saved` tells the fence and the time, for the history.
local token, record = ARGV[1], ARGV[4]
local entry = redis.call('GET', KEYS[3])
if entry and is_record(entry) then
  if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
  local own_fence, owner, _, _, _, json_at = string.match(entry, RECORD_PATTERN)
  if token ~= owner and token ~= '' then return {'lost'} end
  -- A save without a token may have completed another's lock: the same again is known by its text alone.
  if string.sub(entry, json_at) == record then
    local _, micros = clock()
    return {'saved', tonumber(own_fence), math.floor(micros / 1000)}
  end
  return {'exists'}
end

local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local ttl_ms, fingerprint, waited, fence = ARGV[2], '', '0', nil
if entry then
  local _, owner, own_fence, own_ttl, _, _, own_waited, _, own_print = string.match(entry, LOCK_PATTERN)
  if token ~= '' and token ~= owner then return {'lost'} end
  if owner ~= '' then
    token, fence = owner, own_fence
  end
  fingerprint, waited = own_print, own_waited
  if ttl_ms == '' then ttl_ms = own_ttl end
elseif token ~= '' then
  return {'lost'}
end
if not fence then fence = count_lock(meter, micros) end
if ttl_ms == '' then ttl_ms = ARGV[3] end

local ttl = tonumber(ttl_ms)
local bucket = bucket_of(meter, now_ms + ttl, ttl)
local bytes = #record + tonumber(ARGV[5])
redis.call('SET', KEYS[3],
  'R\n' .. fence .. '\n' .. token .. '\n' .. fingerprint .. '\n' .. bucket .. '\n' .. bytes .. '\n' .. record, 'PX', ttl_ms)
redis.call('HINCRBY', KEYS[2], bucket, bytes)
meter.by = meter.by + bytes
write_meter(KEYS[1], meter)
if waited == '1' then wake(KEYS[1], KEYS[3]) end
return {'saved', tonumber(fence), now_ms}
