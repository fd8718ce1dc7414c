-- Returns the counts of the last minute and month in which events were counted. Changes nothing. KEYS: events.
local m = load_events(KEYS[1])
if not m then return {'seed', (clock())} end
return {'known', (clock()), m.mi, m.mc, m.me, m.oc}
