-- Reads all meters of a tenant. Changes nothing. KEYS: meta, side, events. Returns the second, the epoch ('' for none), record bytes
-- (those of expired entries do not count, also if no call has returned them yet),
-- then locks and events: empty without a meter, else minute, count, end of month, count, the closed minute and month
-- ("<window> <count>", zeros for none), then hours and counts, the running hour first.
local function part(m, fields)
  local hash, closed = {}, {M = '0 0', O = '0 0'}
  for at = 1, #fields, 2 do
    local name = fields[at]
    if closed[name] then closed[name] = fields[at + 1] end
    if string.byte(name) == 72 then
      hash[#hash + 1] = tonumber(string.sub(name, 2))
      hash[#hash + 1] = tonumber(fields[at + 1])
    end
  end
  return {m.mi, m.mc, m.me, m.oc, closed.M, closed.O, m.hi, m.hc, unpack(hash)}
end

local packed = redis.call('GET', KEYS[1])
local reply = {(clock()), '', 0, {}, {}}
if packed then
  local meter = unpack_meter(packed)
  local fields, bytes, sec = redis.call('HGETALL', KEYS[2]), meter.by, reply[1]
  for at = 1, #fields, 2 do
    local unit, bucket = string.match(fields[at], '^([mh])(%d+)$')
    if unit and tonumber(bucket) < math.floor(sec / (unit == 'm' and 60 or 3600)) then bytes = bytes - tonumber(fields[at + 1]) end
  end
  reply[2], reply[3] = string.match(meter.e, '^%S+'), bytes
  reply[4] = part(meter, fields)
end
local events = load_events(KEYS[3])
if events then reply[5] = part(events, redis.call('HGETALL', KEYS[3])) end
return reply
