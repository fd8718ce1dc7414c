-- Holds a lock for lockMs from now, also an expired one that was not taken over.
-- KEYS: meta, side, entry. ARGV: token, lockMs (empty: its first duration), place or nothing (see place.lua). May be repeated.
-- Returns fence and time for the lock history.
local sec, micros = clock()
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if not entry then return {is_old(meter.e, ARGV[3]) and 'moved' or 'lost'} end
if is_record(entry) then return {'lost'} end
local before, lock = read_lock(KEYS[3], entry), read_lock(KEYS[3], entry)
if lock.token ~= ARGV[1] then return {is_old(meter.e, ARGV[3]) and 'moved' or 'lost'} end
local held_ms = math.min(tonumber(ARGV[2] ~= '' and ARGV[2] or lock.lock_ms), tonumber(lock.ttl_ms))
local now_ms = math.floor(micros / 1000)
lock.lock_until = now_ms + held_ms
place_lock(meter, KEYS[3], lock, now_ms)
write_lock(meter, KEYS[2], KEYS[3], lock, before)
write_meter(KEYS[1], meter)
return {'extended', tonumber(lock.fence), held_ms, now_ms}
