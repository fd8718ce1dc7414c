-- Reads the meters for the roll-up: epoch, then hour and its locks in turn, the running hour first. Changes nothing.
-- KEYS: meta, side.
local packed = redis.call('GET', KEYS[1])
if not packed then return {'seed'} end
local meter = unpack_meter(packed)
local reply = {'usage', meter.e, tostring(meter.hi), tostring(meter.hc)}
local side = redis.call('HGETALL', KEYS[2])
for at = 1, #side, 2 do
  if string.byte(side[at]) == 72 then
    reply[#reply + 1] = string.sub(side[at], 2)
    reply[#reply + 1] = side[at + 1]
  end
end
return reply
