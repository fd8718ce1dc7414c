-- Reads the record. Changes nothing, so it also runs when Redis is full.
-- KEYS: meta, side, entry. ARGV: place or nothing (see place.lua); a second one requests a long record itself instead of its bytes.
local meta = redis.call('GET', KEYS[1])
if not meta then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if not entry or string.byte(entry) ~= 82 then return {is_old(meta, ARGV[1]) and 'moved' or 'none'} end
if #entry > LONG_BYTES and not ARGV[2] then return {'long', #entry} end
return {'hit', entry}
