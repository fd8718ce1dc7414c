-- Returns the record, takes the lock, or reports the holder. One atomic step; may be repeated with the same token.
-- KEYS: meta, side, entry. ARGV: token; "ttlMs lockMs waits locksPerMinute locksPerMonth recordBytes place" with waits 1 or 0, hard limits
-- and "-" for none, and a place or nothing (see place.lua); fingerprint and attemptId, if any; a fifth one requests a long record itself instead of its bytes.
-- This part answers replays before the functions of locks are defined, because Redis runs the whole text at each call.
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
