-- Clock of Redis, the only one that decides: whole seconds, and microseconds, since the Unix epoch.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]), tonumber(time[1]) * 1000000 + tonumber(time[2])
end
