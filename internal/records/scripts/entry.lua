-- An entry is one string of fields separated by newlines, which only the last field of a record can contain.
--   L  until(ms)  token  fence  ttlMs  lockMs  takenOver  waited  attemptId  fingerprint  bucket
--   R  fence  token  fingerprint  bucket  bytes  the record's JSON
-- A lock without a token is the tombstone (mark) of one that ended without its outcome: the next acquisition still returns `takenOver`.
-- `bucket` is where the meters count the entry's bytes (see meter.lua).
local LOCK_PATTERN = '^L\n(%d+)\n([^\n]*)\n(%d+)\n(%d+)\n(%d+)\n(%d)\n(%d)\n([^\n]*)\n([^\n]*)\n(h%d+)$'
-- The last capture is where the record's JSON begins.
local RECORD_PATTERN = '^R\n(%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(%d+)\n()'
-- Bounds of the tombstone's lifetime after the lock's end (ms), otherwise ttlMs.
local TOMBSTONE_MS_MIN, TOMBSTONE_MS_MAX = 86400000, 604800000

local function is_record(entry)
  return string.byte(entry) == 82
end

-- Reads a lock. An unknown format, written by another version, reads as an expired lock without owner: the next acquisition takes it
-- over and reports that.
local function read_lock(key, entry)
  local lock_until, token, fence, ttl_ms, lock_ms, taken_over, waited, attempt, fingerprint, bucket =
    string.match(entry, LOCK_PATTERN)
  if not lock_until then
    return {lock_until = 0, token = '', fence = '0', ttl_ms = '', lock_ms = '', taken_over = '1', waited = '0', attempt = '',
      fingerprint = '', bytes = 0}
  end
  return {lock_until = tonumber(lock_until), token = token, fence = fence, ttl_ms = ttl_ms, lock_ms = lock_ms,
    taken_over = taken_over, waited = waited, attempt = attempt, fingerprint = fingerprint, bucket = bucket,
    bytes = entry_bytes(key, #entry)}
end

-- Milliseconds have 13 digits, which Lua's conversion keeps; a fence is formatted already.
local function lock_text(lock)
  return 'L\n' .. lock.lock_until .. '\n' .. lock.token .. '\n' .. lock.fence .. '\n' .. lock.ttl_ms .. '\n' .. lock.lock_ms .. '\n' ..
    lock.taken_over .. '\n' .. lock.waited .. '\n' .. lock.attempt .. '\n' .. lock.fingerprint .. '\n' .. lock.bucket
end

-- Decides how long a lock's entry lives from now, and where its bytes are counted.
local function place_lock(meter, key, lock, now_ms)
  local tombstone_ms = math.min(math.max(tonumber(lock.ttl_ms), TOMBSTONE_MS_MIN), TOMBSTONE_MS_MAX)
  lock.keep_ms = math.max(lock.lock_until - now_ms, 0) + tombstone_ms
  lock.bucket = bucket_of(meter, now_ms + lock.keep_ms, lock.keep_ms)
  lock.text = lock_text(lock)
  lock.bytes = entry_bytes(key, #lock.text)
end

-- Writes a placed lock in place of `before` (nil for none) and counts its bytes. Takes effect with write_meter.
local function write_lock(meter, side_key, key, lock, before)
  redis.call('SET', key, lock.text, 'PX', lock.keep_ms)
  move_bytes(meter, side_key, before, lock)
end

-- Replaces a lock by a tombstone. It expired at 0, so that a free key is not busy after the clock goes back. Takes effect with write_meter.
local function leave_mark(meter, side_key, key, lock, now_ms)
  local mark = {
    lock_until = 0, token = '', fence = lock.fence, ttl_ms = lock.ttl_ms, lock_ms = lock.lock_ms, taken_over = '1', waited = '0',
    attempt = '', fingerprint = lock.fingerprint,
  }
  place_lock(meter, key, mark, now_ms)
  write_lock(meter, side_key, key, mark, lock)
end

-- Returns the reply that refuses a new lock or record in place of `before` (nil for none), or nil if it may be written here. Second: the
-- last fence of the earlier store, third: 't' if a lock of the key ended there without its outcome (see place.lua).
-- The reply `elsewhere` has the last fence, the bytes of other entries and the locks of the minute; then the fence and the fingerprint of
-- `before`.
local function refuse_new(meter, place, before)
  -- The tenant never moved, and the caller knows of no move: only a place has a space before it.
  if place == '' and not string.find(meter.e, ' ', 1, true) then return nil end
  local known = string.match(meter.e, ' (%d+[hp])$') or ''
  local own, fence, ended = string.match(place, '^(%d+[hp]):?(%d*)(t?)$')
  if is_old(meter.e, place) then return {'moved'} end
  if known ~= (own or '') then return {'seed'} end
  if string.sub(known, -1) ~= 'p' then return nil, tonumber(fence), ended end
  if not before then return {'elsewhere', meter.f, meter.by, meter.mc} end
  local before_fence = tonumber(before.fence)
  return {'elsewhere', math.max(meter.f, before_fence), meter.by - before.bytes, meter.mc, before_fence, before.fingerprint}
end

local function differs(fingerprint, asked)
  return fingerprint ~= '' and asked ~= '' and fingerprint ~= asked
end

-- Wakes callers that wait for this key. The channel has the tenant's hash tag, as in KEYS[1] "{tenant}:meta".
local function wake(meta_key, entry_key)
  redis.call('SPUBLISH', string.match(meta_key, '^({[^}]+})') .. ':wake', entry_key)
end
