-- A tenant whose records have moved between Redis and Postgres has a place after its epoch in the meters: how often they moved (the
-- generation), and "h" (here) if Redis is the store of new entries, or "p" (past) if it had them before and its entries only end. A caller
-- sends its view of the place, '' or nil for a tenant that never moved: "<generation>p", or "<generation>h:<fence>" with the last fence of
-- the earlier store, and "t" (takeover) after it if a lock of the key ended there without its outcome.

-- Returns whether the tenant's records have moved since the caller read their place: an entry that is not here may then be elsewhere.
local function is_old(epoch, place)
  return tonumber(string.match(epoch, ' (%d+)[hp]$') or 0) > tonumber(string.match(place or '', '^%d+') or 0)
end
