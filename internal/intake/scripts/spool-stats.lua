-- Reads how much waits, in entries and bytes, for how long the oldest has (ms), and the same of the dead without their age.
-- KEYS: events, dead, bytes.
local oldest_ms = 0
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if oldest then
  local time = redis.call('TIME')
  -- An entry's id begins with the milliseconds at which this server, or the master before it, added it.
  oldest_ms = math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(string.match(oldest[1], '^%d+')))
end
return {
  redis.call('XLEN', KEYS[1]), bytes_of(KEYS[3], KEYS[1], 'events'), oldest_ms,
  redis.call('XLEN', KEYS[2]), bytes_of(KEYS[3], KEYS[2], 'dead'),
}
