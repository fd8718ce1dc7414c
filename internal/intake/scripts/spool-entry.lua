-- An entry's values are its event's id, facts, payload and tenant; together they are what it counts for.
local function size_of(fields)
  local size = 0
  for at = 2, #fields, 2 do size = size + #fields[at] end
  return size
end

-- The value of a field; '' where there is none, as in an entry that none of us wrote.
local function value_of(fields, name)
  for at = 1, #fields, 2 do
    if fields[at] == name then return fields[at + 1] end
  end
  return ''
end

-- The bytes that a stream holds. One without entries holds none, whatever was counted: so the count is right again after
-- somebody emptied the stream by hand.
local function bytes_of(bytes_key, stream_key, field)
  if redis.call('XLEN', stream_key) == 0 then return 0 end
  return tonumber(redis.call('HGET', bytes_key, field) or 0)
end

local function write_bytes(bytes_key, field, bytes)
  redis.call('HSET', bytes_key, field, string.format('%.0f', math.max(bytes, 0)))
end

-- Takes an entry's bytes off its tenant's share. A share of nothing is no field, so that the hash holds only those who wait.
local function give_back(tenants_key, tenant, size)
  if redis.call('HEXISTS', tenants_key, tenant) == 0 then return end
  if redis.call('HINCRBY', tenants_key, tenant, -size) <= 0 then redis.call('HDEL', tenants_key, tenant) end
end
