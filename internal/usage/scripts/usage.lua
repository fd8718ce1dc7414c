-- Reads the meters for the roll-up: epoch, then hour and count in turn, the running hour first. Changes nothing.
-- KEYS: meta.
local flat = redis.call('HGETALL', KEYS[1])
local meta = {}
for i = 1, #flat, 2 do meta[flat[i]] = flat[i + 1] end
if not meta.e then return {'seed'} end
local reply = {'usage', meta.e, meta.hi, meta.hc}
for field, value in pairs(meta) do
  if string.byte(field) == 72 then
    reply[#reply + 1] = string.sub(field, 2)
    reply[#reply + 1] = value
  end
end
return reply
