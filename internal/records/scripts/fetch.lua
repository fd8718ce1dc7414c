-- Reads the record. Changes nothing, so it also runs when Redis is full.
-- KEYS: meta, side, entry. ARGV: a first one requests a long record itself instead of its bytes.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if not entry or string.byte(entry) ~= 82 then return {'none'} end
if #entry > LONG_BYTES and not ARGV[1] then return {'long', #entry} end
return {'hit', entry}
