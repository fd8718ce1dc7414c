-- Takes or renews the lease and reads the next entries, as many as the bounds allow and one at least. Again, it gives the same.
-- KEYS: events, lease. ARGV: lease token, its ms, where to begin, most entries, most bytes.
-- Gives 'empty', 'busy' while somebody else has the lease, or 'entries' with a list of them.
if redis.call('XLEN', KEYS[1]) == 0 then return {'empty'} end
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[1] then return {'busy'} end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
local entries, bytes, from = {}, 0, ARGV[3]
while #entries < tonumber(ARGV[4]) do
  -- One by one, since only the entry itself tells how long it is.
  local entry = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
  if not entry then break end
  bytes = bytes + size_of(entry[2])
  if bytes > tonumber(ARGV[5]) and #entries > 0 then break end
  entries[#entries + 1] = entry
  from = '(' .. entry[1]
end
return {'entries', entries}
