-- Adds events in their order, each by itself, as far as there is room for it and its tenant. One atomic step, so that the bounds
-- are exact for any number of callers. Again, it adds them again: that costs room until they are drained, and nothing else.
-- KEYS: events, dead, bytes, tenants. ARGV: most bytes of both streams, most of one tenant's waiting, then id, facts, payload
-- and tenant of each. Gives for each 1, 0 where the spool is full, or -1 where its tenant's share is.
local bytes_max, share_max = tonumber(ARGV[1]), tonumber(ARGV[2])
-- As with the bytes: nobody has a share in a stream that somebody emptied by hand.
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[4]) end
local bytes = bytes_of(KEYS[3], KEYS[1], 'events')
local dead_bytes = bytes_of(KEYS[3], KEYS[2], 'dead')
local held, replies = {}, {}
for at = 3, #ARGV, 4 do
  local tenant = ARGV[at + 3]
  local size = #ARGV[at] + #ARGV[at + 1] + #ARGV[at + 2] + #tenant
  held[tenant] = held[tenant] or tonumber(redis.call('HGET', KEYS[4], tenant) or 0)
  local reply = 1
  if bytes + dead_bytes + size > bytes_max then
    reply = 0
  elseif held[tenant] + size > share_max then
    reply = -1
  else
    redis.call('XADD', KEYS[1], '*', 'id', ARGV[at], 'facts', ARGV[at + 1], 'payload', ARGV[at + 2], 'tenant', tenant)
    bytes = bytes + size
    held[tenant] = redis.call('HINCRBY', KEYS[4], tenant, size)
  end
  replies[#replies + 1] = reply
end
write_bytes(KEYS[3], 'events', bytes)
return replies
