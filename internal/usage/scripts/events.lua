-- Meter of a tenant's events: one hash without expiry, with the windows of meter.lua (mi, mc, hi, hc, me, oc; M, O, H<hour>), and
--   sh: hour of the seeding; p<process>: number of the last call that a process counted with, and its hour.
-- A process repeats a call whose reply was lost within a second or two after Redis is back.
local PROCESS_HOURS_KEPT = 2

local function load_events(key)
  local values = redis.call('HMGET', key, 'mi', 'mc', 'hi', 'hc', 'me', 'oc', 'sh')
  if not values[1] then return nil end
  for at = 1, 7 do values[at] = tonumber(values[at]) end
  return {mi = values[1], mc = values[2], hi = values[3], hc = values[4], me = values[5], oc = values[6], sh = values[7]}
end

local function write_events(key, m)
  redis.call('HSET', key, 'mi', m.mi, 'mc', m.mc, 'hi', m.hi, 'hc', m.hc, 'me', m.me, 'oc', m.oc, 'sh', m.sh)
end

-- Moves the windows to now, and removes ended processes once an hour. Takes effect with write_events.
local function move_events(key, m, sec)
  if math.floor(sec / 60) <= m.mi then return end
  local hour_before = m.hi
  move_windows(m, key, sec)
  if m.hi == hour_before then return end
  local fields = redis.call('HGETALL', key)
  for at = 1, #fields, 2 do
    local called = string.byte(fields[at]) == 112 and tonumber(string.match(fields[at + 1], ' (%d+)$')) or m.hi
    if called <= m.hi - PROCESS_HOURS_KEPT then redis.call('HDEL', key, fields[at]) end
  end
end
