-- Removes the tombstone of a lock, unless the entry has changed. May be repeated. KEYS: meta, side, entry. ARGV: fence of the tombstone.
local meter = read_meter(KEYS[1], KEYS[2], (clock()))
local entry = redis.call('GET', KEYS[3])
if not meter or not entry or is_record(entry) then return {'kept'} end
local lock = read_lock(KEYS[3], entry)
if lock.token ~= '' or lock.fence ~= ARGV[1] then return {'kept'} end
redis.call('DEL', KEYS[3])
move_bytes(meter, KEYS[2], lock, nil)
write_meter(KEYS[1], meter)
return {'forgotten'}
