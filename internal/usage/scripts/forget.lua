-- Removes a tenant's meters. One atomic step; again it finds nothing and changes nothing.
-- KEYS: meta, side.
return redis.call('UNLINK', KEYS[1], KEYS[2])
