-- Counts committed events in one atomic step. Repeating a call of the same process changes nothing.
-- KEYS: events. ARGV: process, number of the call, events of the last seconds, then hours and their late events. Late events count in
-- the hour they arrived in, or in the running one if Redis does not hold the count of that hour.
local m = load_events(KEYS[1])
if not m then return {'seed'} end
local sec = clock()
move_events(KEYS[1], m, sec)
local field = 'p' .. ARGV[1]
local last = redis.call('HGET', KEYS[1], field)
if not last or tonumber(string.match(last, '^%d+')) < tonumber(ARGV[2]) then
  local now = tonumber(ARGV[3])
  m.mc, m.hc, m.oc = m.mc + now, m.hc + now, m.oc + now
  for at = 4, #ARGV, 2 do
    local hour, late = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    if hour >= m.hi or hour < m.sh or hour <= m.hi - HOURS_KEPT then
      m.hc, m.oc = m.hc + late, m.oc + late
    else
      redis.call('HINCRBY', KEYS[1], 'H' .. hour, late)
      if month_end(hour * 3600) == m.me then m.oc = m.oc + late end
    end
  end
  redis.call('HSET', KEYS[1], field, ARGV[2] .. ' ' .. m.hi)
end
write_events(KEYS[1], m)
return {'known', sec, m.mi, m.mc, m.me, m.oc}
