-- The rest of acquire: there is no record, so the lock is asked for.
local token, ttl_ms, lock_ms, fingerprint, attempt = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local sec, micros = clock()
local now_ms = math.floor(micros / 1000)
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local lock_until = now_ms + tonumber(lock_ms)
local taken_over, waited = '0', '0'
if entry then
  local held_until, owner, fence, own_ttl, own_lock, own_taken, own_waited, own_attempt, own_print =
    string.match(entry, LOCK_PATTERN)
  if differs(own_print, fingerprint) then return {'mismatch'} end
  if fingerprint == '' then fingerprint = own_print end
  if owner == token or (attempt ~= '' and attempt == own_attempt and owner ~= '') then
    write_lock(KEYS[3], now_ms, lock_until, owner, fence, ttl_ms, lock_ms, own_taken, own_waited, attempt, fingerprint)
    return {'locked', owner, tonumber(fence), tonumber(lock_ms), tonumber(own_taken)}
  end
  held_until = tonumber(held_until)
  if held_until > now_ms then
    if ARGV[6] == '1' and own_waited == '0' then
      write_lock(KEYS[3], now_ms, held_until, owner, fence, own_ttl, own_lock, own_taken, '1', own_attempt, own_print)
    end
    return {'busy', held_until - now_ms}
  end
  taken_over, waited = '1', own_waited
end

if ARGV[7] ~= '' and meter.mc >= tonumber(ARGV[7]) then
  return {'limited', 'locksPerMinute', ((meter.mi + 1) * 60 * 1000) - now_ms}
end
if ARGV[8] ~= '' and meter.oc >= tonumber(ARGV[8]) then
  return {'limited', 'locksPerMonth', meter.me * 1000 - now_ms}
end
if ARGV[9] ~= '' and meter.by >= tonumber(ARGV[9]) then
  return {'limited', 'recordBytes', ((meter.mi + 1) * 60 * 1000) - now_ms}
end
local fence = count_lock(meter, micros)
write_meter(KEYS[1], meter)
write_lock(KEYS[3], now_ms, lock_until, token, fence, ttl_ms, lock_ms, taken_over, waited, attempt, fingerprint)
return {'locked', token, tonumber(fence), tonumber(lock_ms), tonumber(taken_over)}
