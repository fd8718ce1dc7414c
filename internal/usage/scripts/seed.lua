-- Creates a tenant's meter of locks or of events from the counts in Postgres, unless it exists: of two concurrent calls one wins.
-- KEYS: meta or events. ARGV: epoch of locks, '' for events; hour and its count; end of the month (s) and its count; the place of locks
-- (see place.lua of records), if the tenant's records have moved. A window that
-- has ended by this clock counts from zero; the count of an ended hour of events is kept, for late events of that hour.
local epoch, is_locks, place = ARGV[1], ARGV[1] ~= '', ARGV[6] or ''
if redis.call('EXISTS', KEYS[1]) == 1 then
  if not is_locks then return {'kept', ''} end
  local kept = unpack_meter(redis.call('GET', KEYS[1]))
  local known = string.match(kept.e, '^%S+')
  -- After a move of the tenant's records: locks were counted elsewhere too.
  if tonumber(string.match(place, '^%d+') or 0) > tonumber(string.match(kept.e, ' (%d+)[hp]$') or 0) then
    kept.e = known .. ' ' .. place
    if tonumber(ARGV[4]) == kept.me then kept.oc = math.max(kept.oc, tonumber(ARGV[5])) end
    write_meter(KEYS[1], kept)
  end
  return {'kept', known}
end
if place ~= '' then epoch = epoch .. ' ' .. place end
local sec = clock()
local minute, hour, ending, known_hour = math.floor(sec / 60), math.floor(sec / 3600), month_end(sec), tonumber(ARGV[2])
local m = {
  e = epoch, f = 0, by = 0, sm = minute, mi = minute, mc = 0, sh = math.min(hour, known_hour),
  hi = hour, hc = known_hour >= hour and tonumber(ARGV[3]) or 0,
  me = ending, oc = tonumber(ARGV[4]) >= ending and tonumber(ARGV[5]) or 0,
}
if is_locks then
  write_meter(KEYS[1], m)
else
  write_events(KEYS[1], m)
  if known_hour < hour then redis.call('HSET', KEYS[1], 'H' .. known_hour, ARGV[3]) end
end
return {'seeded', ARGV[1]}
