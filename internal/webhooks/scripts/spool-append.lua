-- Adds events in their order, each by itself, as far as there is room. One atomic step, so that the bound is exact for any
-- number of callers. Again, it adds them again: that costs room until they are drained, and nothing else.
-- KEYS: events, dead, bytes. ARGV: most bytes of both streams, then id, facts and payload of each. Gives 1 or 0 for each.
local bytes_max = tonumber(ARGV[1])
local bytes = bytes_of(KEYS[3], KEYS[1], 'events')
local dead_bytes = bytes_of(KEYS[3], KEYS[2], 'dead')
local replies = {}
for at = 2, #ARGV, 3 do
  local size = #ARGV[at] + #ARGV[at + 1] + #ARGV[at + 2]
  local fits = bytes + dead_bytes + size <= bytes_max
  if fits then
    redis.call('XADD', KEYS[1], '*', 'id', ARGV[at], 'facts', ARGV[at + 1], 'payload', ARGV[at + 2])
    bytes = bytes + size
  end
  replies[#replies + 1] = fits and 1 or 0
end
write_bytes(KEYS[3], 'events', bytes)
return replies
