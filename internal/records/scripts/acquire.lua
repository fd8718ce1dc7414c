-- Second part of acquire: takes the locks of entries without a record. A reply has five fields for the caller, then for the lock history:
-- the time of a re-entry by the same attempt, or 0; and the fence that was taken over. Where earlier entries only end, a lock that is over
-- becomes a tombstone, and the reply `elsewhere` has the time as its last field.
local per_minute, per_month, bytes_max, place = string.match(ARGV[1], '^(%S+) (%S+) (%S+) ?(%S*)$')
local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter, is_changed = read_meter(KEYS[1], KEYS[2], sec), false
local function exceeds(limit, value)
  return limit ~= '-' and value > tonumber(limit)
end

-- Writes a lock in place of `before` (nil for none). The meter is written once, after all entries.
local function write(key, lock, before)
  write_lock(meter, KEYS[2], key, lock, before)
  is_changed = true
end

local function acquire(key, entry, token, terms)
  local ttl_ms, lock_ms, waits, _, attempt, fingerprint = string.match(terms, TERMS_PATTERN)
  -- Has all fields from the beginning, since a table that grows is slow.
  local lock = {
    lock_until = now_ms + tonumber(lock_ms), token = token, ttl_ms = ttl_ms, lock_ms = lock_ms, taken_over = '0', waited = '0',
    attempt = attempt, fingerprint = fingerprint, fence = '', keep_ms = 0, bucket = '', text = '', bytes = 0,
  }
  local before, ended_fence, bytes_before = nil, nil, 0
  if entry then
    before = read_lock(key, entry)
    if differs(before.fingerprint, fingerprint) then return {'mismatch'} end
    if fingerprint == '' then lock.fingerprint = before.fingerprint end
    lock.waited = before.waited
    if before.token == token or (attempt ~= '' and attempt == before.attempt and before.token ~= '') then
      lock.token, lock.fence, lock.taken_over = before.token, before.fence, before.taken_over
      place_lock(meter, key, lock, now_ms)
      -- A re-entry is never refused, so it must not exceed the limit: it keeps the earlier fingerprint and attempt id.
      if lock.bytes > before.bytes and exceeds(bytes_max, meter.by + lock.bytes - before.bytes) then
        lock.fingerprint, lock.attempt = before.fingerprint, before.attempt
        place_lock(meter, key, lock, now_ms)
      end
      write(key, lock, before)
      return {'locked', lock.token, tonumber(lock.fence), tonumber(lock_ms), tonumber(lock.taken_over), now_ms}
    end
    if before.lock_until > now_ms then
      if waits == '1' and before.waited == '0' then
        before.waited = '1'
        redis.call('SET', key, lock_text(before), 'KEEPTTL')
      end
      return {'busy', before.lock_until - now_ms}
    end
    lock.taken_over, bytes_before = '1', before.bytes
    if before.token ~= '' then ended_fence = tonumber(before.fence) end
  end
  local refusal, fence_elsewhere, ended_elsewhere = refuse_new(meter, place, before)
  if refusal then
    if refusal[1] == 'elsewhere' and ended_fence then
      leave_mark(meter, KEYS[2], key, before, now_ms)
      is_changed = true
      refusal[7] = now_ms
    end
    return refusal
  end
  if ended_elsewhere == 't' then lock.taken_over = '1' end
  if per_minute ~= '-' and meter.mc >= tonumber(per_minute) then
    return {'limited', 'locksPerMinute', ((meter.mi + 1) * 60 * 1000) - now_ms}
  end
  if per_month ~= '-' and meter.oc >= tonumber(per_month) then
    return {'limited', 'locksPerMonth', meter.me * 1000 - now_ms}
  end
  lock.fence = count_lock(meter, micros, fence_elsewhere)
  place_lock(meter, key, lock, now_ms)
  if exceeds(bytes_max, meter.by + lock.bytes - bytes_before) then
    count_locks(meter, -1)
    return {'limited', 'recordBytes', ((meter.mi + 1) * 60 * 1000) - now_ms}
  end
  write(key, lock, before)
  return {'locked', token, tonumber(lock.fence), tonumber(lock_ms), tonumber(lock.taken_over), ended_fence and 0, ended_fence}
end

for _, one in ipairs(unanswered) do
  local at = one.at
  replies[at - 2] = meter and acquire(KEYS[at], one.entry, ARGV[2 * at - 4], ARGV[2 * at - 3]) or {'seed'}
end
if is_changed then write_meter(KEYS[1], meter) end
return replies
