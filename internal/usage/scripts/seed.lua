-- Gives a tenant its meters, unless they are there: of two that try, one wins, and the other's call changes nothing.
-- KEYS: meta. ARGV: epoch, the hour and its locks, the month's end (s) and its locks, as Postgres has them. A window that
-- is over by this clock counts from zero.
local packed = redis.call('GET', KEYS[1])
if packed then return {'kept', unpack_meter(packed).e} end
local sec = clock()
local minute, hour, ending = math.floor(sec / 60), math.floor(sec / 3600), month_end(sec)
write_meter(KEYS[1], {
  e = ARGV[1], f = 0, mi = minute, mc = 0, by = 0, sm = minute,
  hi = hour, hc = tonumber(ARGV[2]) == hour and tonumber(ARGV[3]) or 0,
  me = ending, oc = tonumber(ARGV[4]) == ending and tonumber(ARGV[5]) or 0,
})
return {'seeded', ARGV[1]}
