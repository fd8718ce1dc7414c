-- Second part of acquire, without a record: takes the lock. The reply has five fields for the caller, then for the lock history: the
-- time of a re-entry by the same attempt, or 0; and the fence that was taken over. Where earlier entries only end, a lock that is over
-- becomes a mark, and the reply `elsewhere` has the time as its last field.
local token, fingerprint, attempt = ARGV[1], ARGV[3] or '', ARGV[4] or ''
local ttl_ms, lock_ms, waits, per_minute, per_month, bytes_max, place =
  string.match(ARGV[2], '^(%d+) (%d+) (%d) (%S+) (%S+) (%S+) ?(%S*)$')
local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local lock = {
  lock_until = now_ms + tonumber(lock_ms), token = token, ttl_ms = ttl_ms, lock_ms = lock_ms, taken_over = '0', waited = '0',
  attempt = attempt, fingerprint = fingerprint,
}
local function exceeds(limit, value)
  return limit ~= '-' and value > tonumber(limit)
end
local before, ended_fence, bytes_before = nil, nil, 0
if entry then
  before = read_lock(KEYS[3], entry)
  if differs(before.fingerprint, fingerprint) then return {'mismatch'} end
  if fingerprint == '' then lock.fingerprint = before.fingerprint end
  lock.waited = before.waited
  if before.token == token or (attempt ~= '' and attempt == before.attempt and before.token ~= '') then
    lock.token, lock.fence, lock.taken_over = before.token, before.fence, before.taken_over
    place_lock(meter, KEYS[3], lock, now_ms)
    -- A re-entry is never refused, so it must not exceed the limit: it keeps the earlier fingerprint and attempt id.
    if lock.bytes > before.bytes and exceeds(bytes_max, meter.by + lock.bytes - before.bytes) then
      lock.fingerprint, lock.attempt = before.fingerprint, before.attempt
      place_lock(meter, KEYS[3], lock, now_ms)
    end
    write_lock(meter, KEYS[2], KEYS[3], lock, before)
    write_meter(KEYS[1], meter)
    return {'locked', lock.token, tonumber(lock.fence), tonumber(lock_ms), tonumber(lock.taken_over), now_ms}
  end
  if before.lock_until > now_ms then
    if waits == '1' and before.waited == '0' then
      before.waited = '1'
      redis.call('SET', KEYS[3], lock_text(before), 'KEEPTTL')
    end
    return {'busy', before.lock_until - now_ms}
  end
  lock.taken_over, bytes_before = '1', before.bytes
  if before.token ~= '' then ended_fence = tonumber(before.fence) end
end

local refusal, fence_elsewhere, ended_elsewhere = refuse_new(meter, place, before)
if refusal then
  if refusal[1] == 'elsewhere' and ended_fence then
    leave_mark(meter, KEYS[2], KEYS[3], before, now_ms)
    write_meter(KEYS[1], meter)
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
place_lock(meter, KEYS[3], lock, now_ms)
if exceeds(bytes_max, meter.by + lock.bytes - bytes_before) then
  return {'limited', 'recordBytes', ((meter.mi + 1) * 60 * 1000) - now_ms}
end
write_lock(meter, KEYS[2], KEYS[3], lock, before)
write_meter(KEYS[1], meter)
return {'locked', token, tonumber(lock.fence), tonumber(lock_ms), tonumber(lock.taken_over), ended_fence and 0, ended_fence}
