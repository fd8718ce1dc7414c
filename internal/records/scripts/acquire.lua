-- The rest of acquire: there is no record, so the lock is asked for. After the five parts of an answer to a caller come, for the
-- history: when a lock that its own attempt entered again began anew, or 0; and the fence that was taken over.
local token, fingerprint, attempt = ARGV[1], ARGV[3] or '', ARGV[4] or ''
local ttl_ms, lock_ms, waits, per_minute, per_month, bytes_max =
  string.match(ARGV[2], '^(%d+) (%d+) (%d) (%S+) (%S+) (%S+)$')
local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local lock_until = now_ms + tonumber(lock_ms)
local taken_over, waited, ended_fence = '0', '0', nil
if entry then
  local held_until, owner, fence, own_ttl, own_lock, own_taken, own_waited, own_attempt, own_print =
    string.match(entry, LOCK_PATTERN)
  if differs(own_print, fingerprint) then return {'mismatch'} end
  if fingerprint == '' then fingerprint = own_print end
  if owner == token or (attempt ~= '' and attempt == own_attempt and owner ~= '') then
    write_lock(KEYS[3], now_ms, lock_until, owner, fence, ttl_ms, lock_ms, own_taken, own_waited, attempt, fingerprint)
    return {'locked', owner, tonumber(fence), tonumber(lock_ms), tonumber(own_taken), now_ms}
  end
  held_until = tonumber(held_until)
  if held_until > now_ms then
    if waits == '1' and own_waited == '0' then
      write_lock(KEYS[3], now_ms, held_until, owner, fence, own_ttl, own_lock, own_taken, '1', own_attempt, own_print)
    end
    return {'busy', held_until - now_ms}
  end
  taken_over, waited = '1', own_waited
  if owner ~= '' then ended_fence = tonumber(fence) end
end

if per_minute ~= '-' and meter.mc >= tonumber(per_minute) then
  return {'limited', 'locksPerMinute', ((meter.mi + 1) * 60 * 1000) - now_ms}
end
if per_month ~= '-' and meter.oc >= tonumber(per_month) then
  return {'limited', 'locksPerMonth', meter.me * 1000 - now_ms}
end
if bytes_max ~= '-' and meter.by >= tonumber(bytes_max) then
  return {'limited', 'recordBytes', ((meter.mi + 1) * 60 * 1000) - now_ms}
end
local fence = count_lock(meter, micros)
write_meter(KEYS[1], meter)
write_lock(KEYS[3], now_ms, lock_until, token, fence, ttl_ms, lock_ms, taken_over, waited, attempt, fingerprint)
return {'locked', token, tonumber(fence), tonumber(lock_ms), tonumber(taken_over), ended_fence and 0, ended_fence}
