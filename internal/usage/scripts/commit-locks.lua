-- Counts locks that another service uses, once per id, unless a hard limit refuses them: in the windows of acquired locks, so that both
-- together stay within the limits. The id's marker counts as an entry in record bytes, which bounds the memory of markers.
-- KEYS: meta, side, marker. ARGV: number of locks, milliseconds that the marker is kept, then hard and soft limits of the minute, the
-- month and bytes; '-' for none; 'suspended' denies every id without a marker; then how often the tenant's records have moved (see place.lua
-- of records). Replies 'seed', or the kind, the decision and its limit ('-' for none), the counts afterwards, and the second of the commit.
-- The longest text of a marker: number, decision, name of a limit, second. Earlier builds wrote no second.
local MARKER_CHARS = 48
local amount, kept_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local sec, micros = clock()
local meter = read_meter(KEYS[1], KEYS[2], sec)
if not meter then return {'seed'} end
local function reply(kind, decision, limit, committed)
  return {kind, decision, limit, sec, meter.mc, meter.oc, meter.by, tonumber(committed) or sec}
end

local marker = redis.call('GET', KEYS[3])
if marker then
  local counted, decision, limit, committed = string.match(marker, '^(%d+) (%l+) (%S+) ?(%d*)$')
  if counted ~= ARGV[1] then return reply('conflict', '', '-') end
  return reply('repeat', decision, limit, committed)
end
if ARGV[9] == 'suspended' then return reply('denied', 'deny', '-') end
-- After a move, locks were counted elsewhere too.
if (string.match(meter.e, ' (%d+)[hp]$') or '0') ~= ARGV[10] then return {'seed'} end

local bytes = entry_bytes(KEYS[3], MARKER_CHARS)
local limits = {
  {'locksPerMinute', meter.mc + amount, ARGV[3], ARGV[4]},
  {'locksPerMonth', meter.oc + amount, ARGV[5], ARGV[6]},
  {'recordBytes', meter.by + bytes, ARGV[7], ARGV[8]},
}
local decision, reached = 'allow', '-'
for _, limit in ipairs(limits) do
  local name, value, hard, soft = unpack(limit)
  if hard ~= '-' and value > tonumber(hard) then return reply('denied', 'deny', name) end
  if reached == '-' and soft ~= '-' and value >= tonumber(soft) then decision, reached = 'warn', name end
end
count_locks(meter, amount)
local bucket = bucket_of(meter, math.floor(micros / 1000) + kept_ms, kept_ms)
move_bytes(meter, KEYS[2], nil, {bytes = bytes, bucket = bucket})
redis.call('SET', KEYS[3], table.concat({ARGV[1], decision, reached, sec}, ' '), 'PX', kept_ms)
write_meter(KEYS[1], meter)
return reply('committed', decision, reached)
