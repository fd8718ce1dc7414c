-- Check or lock: the record, or the lock, or who is in the way. One atomic step; may be repeated with the same token.
-- KEYS: meta, side, entry. ARGV: token, ttlMs, lockMs, fingerprint, attemptId, waits (1 or 0), then the hard limits
-- (empty for none): locks a minute, locks a month, bytes of records. Limits are checked for a new lock only.
local entry = redis.call('GET', KEYS[3])
if entry and is_record(entry) then
  if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
  if ARGV[4] ~= '' and differs(fingerprint_of_record(entry), ARGV[4]) then return {'mismatch'} end
  return {'hit', entry}
end
