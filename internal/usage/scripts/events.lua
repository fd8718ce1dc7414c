-- The tenant's meters of events: one hash without expiry.
--   mi/mc: minute and its events, hi/hc: hour and its events, me/oc: end of the month (s) and its events, sh: hour of the seeding;
--   M, O: the last minute and month gone by, each with its events; H<hour>: events of an hour gone by, until the roll-up in
--   Postgres has them; p<process>: the number of the last call that a process counted by, and the hour of it.
local EVENT_HOURS_KEPT = 48
-- A process repeats a call whose answer was lost within a second or two of Redis being back.
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

-- Closes the running hour: its count waits for the roll-up; what waited for two days, and processes long gone, go.
local function close_event_hour(key, m, hour)
  local fields = redis.call('HGETALL', key)
  for at = 1, #fields, 2 do
    local closed = tonumber(string.match(fields[at], '^H(%d+)$') or hour)
    local seen = string.byte(fields[at]) == 112 and tonumber(string.match(fields[at + 1], ' (%d+)$')) or hour
    if closed <= hour - EVENT_HOURS_KEPT or seen <= hour - PROCESS_HOURS_KEPT then redis.call('HDEL', key, fields[at]) end
  end
  if m.hc > 0 then redis.call('HINCRBY', key, 'H' .. m.hi, m.hc) end
  m.hi, m.hc = hour, 0
end

-- Moves the windows to now; it counts once write_events was called. A clock that goes back stays in the window it was in.
local function move_events(key, m, sec)
  local minute, hour = math.floor(sec / 60), math.floor(sec / 3600)
  if minute <= m.mi then return end
  if m.mc > 0 then redis.call('HSET', key, 'M', m.mi .. ' ' .. m.mc) end
  m.mi, m.mc = minute, 0
  if sec >= m.me then
    redis.call('HSET', key, 'O', m.me .. ' ' .. m.oc)
    m.me, m.oc = month_end(sec), 0
  end
  if hour > m.hi then close_event_hour(key, m, hour) end
end
