-- Removes a tenant's meters. Repeating it changes nothing. KEYS: meta, side, events.
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
