-- A tenant whose records have moved between Redis and Postgres has a place after its epoch: "<generation>h" in the store of new entries,
-- "<generation>p" where earlier ones only end. A caller's place is '' or nil for a tenant that never moved. In the store of new entries it
-- has the last fence of the earlier store, and "t" if a lock of the key ended there without its outcome: "<generation>h:<fence>t".

-- Returns whether the tenant's records have moved since the caller read their place: an entry that is not here may then be elsewhere.
local function is_old(epoch, place)
  return tonumber(string.match(epoch, ' (%d+)[hp]$') or 0) > tonumber(string.match(place or '', '^%d+') or 0)
end
