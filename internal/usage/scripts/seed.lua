-- Gives a tenant its meters, unless they are there: of two that try, one wins, and the other's call changes nothing.
-- KEYS: meta. ARGV: epoch, the hour and its locks, the month's end (s) and its locks, as Postgres has them. A window that
-- is over by this clock counts from zero.
if redis.call('EXISTS', KEYS[1]) == 1 then return {'kept', redis.call('HGET', KEYS[1], 'e')} end
local sec = clock()
local hour, ending = math.floor(sec / 3600), month_end(sec)
redis.call('HSET', KEYS[1], 'e', ARGV[1], 'f', 0, 'mi', math.floor(sec / 60), 'mc', 0,
  'hi', hour, 'hc', tonumber(ARGV[2]) == hour and ARGV[3] or 0,
  'me', ending, 'oc', tonumber(ARGV[4]) == ending and ARGV[5] or 0, 'by', 0, 'sm', math.floor(sec / 60))
return {'seeded', ARGV[1]}
