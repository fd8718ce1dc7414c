-- Gives a tenant its meters of events, unless they are there: of two that try, one wins, and the other's call changes nothing.
-- KEYS: events. ARGV: the hour and its events, the month's end (s) and its events, as Postgres has them. A window that is over by
-- this clock counts from zero; its hour is kept all the same, so that what comes late for it finds its count.
if redis.call('EXISTS', KEYS[1]) == 1 then return 'kept' end
local sec = clock()
local hour, ending, known_hour = math.floor(sec / 3600), month_end(sec), tonumber(ARGV[1])
write_events(KEYS[1], {
  mi = math.floor(sec / 60), mc = 0, sh = math.min(hour, known_hour),
  hi = hour, hc = known_hour >= hour and tonumber(ARGV[2]) or 0,
  me = ending, oc = tonumber(ARGV[3]) >= ending and tonumber(ARGV[4]) or 0,
})
if known_hour < hour then redis.call('HSET', KEYS[1], 'H' .. known_hour, ARGV[2]) end
return 'seeded'
