-- Reads the record. Changes nothing, so that it answers also when the store is full.
-- KEYS: meta, side, entry. ARGV: a first one asks for a record of any length, where a long one is else answered by its bytes.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if not entry or string.byte(entry) ~= 82 then return {'none'} end
if #entry > LONG_BYTES and not ARGV[1] then return {'long', #entry} end
return {'hit', entry}
