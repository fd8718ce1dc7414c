-- Returns the last fence of a tenant, 0 for none. Changes nothing. KEYS: meta.
local meta = redis.call('GET', KEYS[1])
return {meta and struct.unpack('>d', meta) or 0}
