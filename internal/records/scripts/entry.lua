-- An entry is one string, its fields parted by newlines, which no field but a record's last can hold.
--   L  until(ms)  token  fence  ttlMs  lockMs  takenOver  waited  attemptId  fingerprint
--   R  fence  token  fingerprint  bucket  bytes  the record's JSON
-- A lock without a token is a released one whose key was taken over before: the next holder must still be told.
local LOCK_PATTERN = '^L\n(%d+)\n([^\n]*)\n(%d+)\n(%d+)\n(%d+)\n(%d)\n(%d)\n([^\n]*)\n([^\n]*)$'
-- The last capture is where the record's JSON begins.
local RECORD_PATTERN = '^R\n(%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(%d+)\n()'

local function is_record(entry)
  return string.byte(entry) == 82
end

-- Kept until its lock ended and then for ttlMs, a day at most: so long a late holder may complete, and a new one be warned.
-- Milliseconds have 13 digits, which Lua's own conversion keeps; a fence comes formatted.
local function write_lock(key, now_ms, lock_until, token, fence, ttl_ms, lock_ms, taken_over, waited, attempt, fingerprint)
  local keep_ms = math.max(lock_until - now_ms, 0) + math.min(tonumber(ttl_ms), 86400000)
  redis.call('SET', key, 'L\n' .. lock_until .. '\n' .. token .. '\n' .. fence .. '\n' .. ttl_ms .. '\n' .. lock_ms .. '\n' ..
    taken_over .. '\n' .. waited .. '\n' .. attempt .. '\n' .. fingerprint, 'PX', keep_ms)
end

local function differs(fingerprint, asked)
  return fingerprint ~= '' and asked ~= '' and fingerprint ~= asked
end

-- Wakes who waits for this key. The channel carries the tenant's hash tag, as in KEYS[1] "{tenant}:meta".
local function wake(meta_key, entry_key)
  redis.call('SPUBLISH', string.match(meta_key, '^({[^}]+})') .. ':wake', entry_key)
end
