-- Saves records: the first one of a key wins. One atomic step; a repeat changes nothing.
-- KEYS: meta, side, entries, each once. ARGV: a place or '' (see place.lua); then for each entry the token ('' for none), ttlMs ('': the
-- lock's), ttlMs without a lock, and the record's JSON. Returns a reply for each entry, with fence and time for the lock history.
local place = ARGV[1]
local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter, is_changed = read_meter(KEYS[1], KEYS[2], sec), false

local function save(key, token, ttl_ms, ttl_ms_default, record)
  local entry = redis.call('GET', key)
  if entry and is_record(entry) then
    local own_fence, owner, _, _, _, json_at = string.match(entry, RECORD_PATTERN)
    if token ~= owner and token ~= '' then return {'lost'} end
    -- A save without a token may have completed another caller's lock, so only the text identifies a repeat.
    if string.sub(entry, json_at) == record then return {'saved', tonumber(own_fence), now_ms} end
    return {'exists'}
  end
  local fingerprint, waited, fence, lock = '', '0', nil, nil
  if entry then
    lock = read_lock(key, entry)
    if token ~= '' and token ~= lock.token then return {is_old(meter.e, place) and 'moved' or 'lost'} end
    if lock.token ~= '' then
      token, fence = lock.token, lock.fence
    end
    fingerprint, waited = lock.fingerprint, lock.waited
    if ttl_ms == '' then ttl_ms = lock.ttl_ms end
  elseif token ~= '' then
    return {is_old(meter.e, place) and 'moved' or 'lost'}
  end
  if not fence then
    local refusal, fence_elsewhere = refuse_new(meter, place, lock)
    if refusal then return refusal end
    fence = count_lock(meter, micros, fence_elsewhere)
  end
  if ttl_ms == '' then ttl_ms = ttl_ms_default end

  local ttl = tonumber(ttl_ms)
  local bucket = bucket_of(meter, now_ms + ttl, ttl)
  local head = 'R\n' .. fence .. '\n' .. token .. '\n' .. fingerprint .. '\n' .. bucket .. '\n'
  local bytes = entry_bytes(key, #head + #record)
  redis.call('SET', key, head .. bytes .. '\n' .. record, 'PX', ttl_ms)
  move_bytes(meter, KEYS[2], lock, {bucket = bucket, bytes = bytes})
  is_changed = true
  if waited == '1' then wake(KEYS[1], key) end
  return {'saved', tonumber(fence), now_ms}
end

local replies = {}
for at = 3, #KEYS do
  local of = 4 * at - 10
  replies[at - 2] = meter and save(KEYS[at], ARGV[of], ARGV[of + 1], ARGV[of + 2], ARGV[of + 3]) or {'seed'}
end
if is_changed then write_meter(KEYS[1], meter) end
return replies
