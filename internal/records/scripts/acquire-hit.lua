-- For each entry returns the record, takes the lock, or reports the holder. One atomic step; may be repeated with the same tokens.
-- KEYS: meta, side, entries, each once. ARGV: rules "locksPerMinute locksPerMonth recordBytes place", hard limits and "-" for none, and a
-- place or nothing (see place.lua); then for each entry its token and its terms "ttlMs\nlockMs\nwaits\nwhole\nattemptId\nfingerprint":
-- `waits` and `whole` are 1 or 0, and `whole` requests a long record itself instead of its bytes. Returns a reply for each entry.
-- This part answers replays before the functions of locks are defined, because Redis runs the whole text at each call.
local TERMS_PATTERN = '^(%d+)\n(%d+)\n(%d)\n(%d)\n([^\n]*)\n([^\n]*)$'
local replies, unanswered = {}, {}
for at = 3, #KEYS do
  local entry = redis.call('GET', KEYS[at])
  if entry and string.byte(entry) == 82 then
    local _, _, _, whole, _, fingerprint = string.match(ARGV[2 * at - 3], TERMS_PATTERN)
    local own = fingerprint ~= '' and string.match(entry, '^R\n%d+\n[^\n]*\n([^\n]*)\n') or ''
    if redis.call('EXISTS', KEYS[1]) == 0 then
      replies[at - 2] = {'seed'}
    elseif own ~= '' and own ~= fingerprint then
      replies[at - 2] = {'mismatch'}
    elseif #entry > LONG_BYTES and whole == '0' then
      replies[at - 2] = {'long', #entry}
    else
      replies[at - 2] = {'hit', entry}
    end
  else
    unanswered[#unanswered + 1] = {at = at, entry = entry}
  end
end
if #unanswered == 0 then return replies end
