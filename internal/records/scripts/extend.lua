-- Lets a lock live for lockMs from now, also one whose time is over while nobody took it.
-- KEYS: meta, side, entry. ARGV: token, lockMs (empty: as long as it was first taken for). May be repeated.
-- The time of it is told, for the history.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if not entry or is_record(entry) then return {'lost'} end
local _, owner, fence, ttl_ms, own_lock, taken_over, waited, attempt, fingerprint = string.match(entry, LOCK_PATTERN)
if owner ~= ARGV[1] then return {'lost'} end
local lock_ms = math.min(tonumber(ARGV[2] ~= '' and ARGV[2] or own_lock), tonumber(ttl_ms))
local _, micros = clock()
local now_ms = math.floor(micros / 1000)
write_lock(KEYS[3], now_ms, now_ms + lock_ms, owner, fence, ttl_ms, own_lock, taken_over, waited, attempt, fingerprint)
return {'extended', tonumber(fence), lock_ms, now_ms}
