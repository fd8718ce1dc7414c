-- Check or lock: the record, or the lock, or who is in the way. One atomic step; may be repeated with the same token.
-- KEYS: meta, side, entry. ARGV: token; "ttlMs lockMs waits locksPerMinute locksPerMonth recordBytes", waits being 1 or 0 and
-- a limit that there is not being "-"; fingerprint and attemptId, where there are any; a fifth one asks for a record of any
-- length, where a long one is else answered by its bytes. Limits are hard ones, for new locks.
-- This part answers a replay before the parts are defined that only a lock needs: Redis runs the whole text at each call.
local entry = redis.call('GET', KEYS[3])
if entry and string.byte(entry) == 82 then
  if redis.call('EXISTS', KEYS[1]) == 0 then return {'seed'} end
  if (ARGV[3] or '') ~= '' then
    local fingerprint = string.match(entry, '^R\n%d+\n[^\n]*\n([^\n]*)\n')
    if fingerprint ~= '' and fingerprint ~= ARGV[3] then return {'mismatch'} end
  end
  if #entry > LONG_BYTES and not ARGV[5] then return {'long', #entry} end
  return {'hit', entry}
end
