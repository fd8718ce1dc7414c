-- Without a token removes the record and keeps a lock; with one releases that lock only.
-- KEYS: meta, side, entry. ARGV: token (empty for none), place or nothing (see place.lua). One atomic step; a repeat changes nothing.
-- Returns fence and time for the lock history.
local sec, micros = clock()
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local token = ARGV[1]
local entry = redis.call('GET', KEYS[3])
if not entry then
  if is_old(meter.e, ARGV[2]) then return {'moved'} end
  return {'removed', 0}
end
if is_record(entry) then
  if token ~= '' then return {'removed', 0} end
  local _, _, _, bucket, bytes = string.match(entry, RECORD_PATTERN)
  redis.call('DEL', KEYS[3])
  move_bytes(meter, KEYS[2], {bucket = bucket, bytes = tonumber(bytes)}, nil)
  write_meter(KEYS[1], meter)
  return {'removed', 1}
end

local lock = read_lock(KEYS[3], entry)
if token == '' or token ~= lock.token then
  if is_old(meter.e, ARGV[2]) then return {'moved'} end
  return {'removed', 0}
end
local now_ms = math.floor(micros / 1000)
if lock.taken_over == '1' then
  leave_mark(meter, KEYS[2], KEYS[3], lock, now_ms)
else
  redis.call('DEL', KEYS[3])
  move_bytes(meter, KEYS[2], lock, nil)
end
write_meter(KEYS[1], meter)
if lock.waited == '1' then wake(KEYS[1], KEYS[3]) end
return {'removed', 1, tonumber(lock.fence), now_ms}
