-- Removes a tenant's meters. One atomic step; again it finds nothing and changes nothing.
-- KEYS: meta, side, events.
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
