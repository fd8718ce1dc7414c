-- Removes entries, and those with a reason go to the dead stream in the same step. One that is gone, or whose place another
-- event has taken since Redis came back with older data, is left alone and not counted: two may settle the same entries.
-- Either way its tenant has the room again. KEYS: events, dead, bytes, tenants.
-- ARGV: entry id, event id and reason or '' of each. Gives 1 or 0 for each.
local bytes = bytes_of(KEYS[3], KEYS[1], 'events')
local dead_bytes = bytes_of(KEYS[3], KEYS[2], 'dead')
local replies = {}
for at = 1, #ARGV, 3 do
  local entry = redis.call('XRANGE', KEYS[1], ARGV[at], ARGV[at], 'COUNT', 1)[1]
  local ours = entry ~= nil and value_of(entry[2], 'id') == ARGV[at + 1]
  if ours then
    local size = size_of(entry[2])
    if ARGV[at + 2] ~= '' then
      redis.call('XADD', KEYS[2], '*', 'reason', ARGV[at + 2], unpack(entry[2]))
      dead_bytes = dead_bytes + size
    end
    redis.call('XDEL', KEYS[1], ARGV[at])
    bytes = bytes - size
    give_back(KEYS[4], value_of(entry[2], 'tenant'), size)
  end
  replies[#replies + 1] = ours and 1 or 0
end
write_bytes(KEYS[3], 'events', bytes)
write_bytes(KEYS[3], 'dead', dead_bytes)
return replies
