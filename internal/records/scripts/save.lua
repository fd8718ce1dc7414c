-- Saves the record: the first one wins. One atomic step; a repeat changes nothing.
-- KEYS: meta, side, entry. ARGV: token (empty for none), ttlMs (empty: the lock's), ttlMs without a lock, the record's JSON, and a
-- place or nothing (see place.lua). Returns fence and time for the lock history.
local token, record = ARGV[1], ARGV[4]
local entry = redis.call('GET', KEYS[3])
if entry and is_record(entry) then
  if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
  local own_fence, owner, _, _, _, json_at = string.match(entry, RECORD_PATTERN)
  if token ~= owner and token ~= '' then return {'lost'} end
  -- A save without a token may have completed another caller's lock, so only the text identifies a repeat.
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
local ttl_ms, fingerprint, waited, fence, lock = ARGV[2], '', '0', nil, nil
if entry then
  lock = read_lock(KEYS[3], entry)
  if token ~= '' and token ~= lock.token then return {is_old(meter.e, ARGV[5]) and 'moved' or 'lost'} end
  if lock.token ~= '' then
    token, fence = lock.token, lock.fence
  end
  fingerprint, waited = lock.fingerprint, lock.waited
  if ttl_ms == '' then ttl_ms = lock.ttl_ms end
elseif token ~= '' then
  return {is_old(meter.e, ARGV[5]) and 'moved' or 'lost'}
end
if not fence then
  local refusal, fence_elsewhere = refuse_new(meter, ARGV[5] or '', lock)
  if refusal then return refusal end
  fence = count_lock(meter, micros, fence_elsewhere)
end
if ttl_ms == '' then ttl_ms = ARGV[3] end

local ttl = tonumber(ttl_ms)
local bucket = bucket_of(meter, now_ms + ttl, ttl)
local head = 'R\n' .. fence .. '\n' .. token .. '\n' .. fingerprint .. '\n' .. bucket .. '\n'
local bytes = entry_bytes(KEYS[3], #head + #record)
redis.call('SET', KEYS[3], head .. bytes .. '\n' .. record, 'PX', ttl_ms)
move_bytes(meter, KEYS[2], lock, {bucket = bucket, bytes = bytes})
write_meter(KEYS[1], meter)
if waited == '1' then wake(KEYS[1], KEYS[3]) end
return {'saved', tonumber(fence), now_ms}
