-- Gives the lease back, unless somebody else has it by now. Again, it changes nothing.
-- KEYS: lease. ARGV: lease token.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
