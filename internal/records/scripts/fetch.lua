-- Reads the record. Changes nothing, so that it answers also when the store is full.
-- KEYS: meta, side, entry.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
local entry = redis.call('GET', KEYS[3])
if entry and is_record(entry) then return {'hit', entry} end
return {'none'}
