-- Adds measurements to the running statistics of one bucket, each at most once.
--
-- KEYS[1]  the bucket, a hash. Field "@<topic id>/<partition>": the fence, the highest offset applied.
--          Any other field: "<n> <mean> <m2> <last> <last_at> " and the newest attempts, 12 letters each.
-- ARGV[1]  number of attempt ids kept per statistic
-- ARGV[2]  MessagePack of {sources, begins, ends}: fence fields, and the offset range [begin, end) that the updates
--          cover in each source; earlier offsets have been applied, unless the bucket has lost them
-- ARGV[3]  MessagePack of {fields, updates}: names of statistics, and six items per update: index of its source,
--          index of its field, offset, attempt id, value, event time. Updates of a source are in order of offset,
--          and all updates of an offset are in one call.
-- Returns  {added, duplicates, redelivered, fences before the call...}. Nothing is written if a range begins beyond
--          its fence, because that would hide the loss.
--
-- Everything is computed before the first write; the writes of a script are atomic.

local bucket = KEYS[1]
local room = tonumber(ARGV[1]) * 12
local sources, begins, ends = unpack(cmsgpack.unpack(ARGV[2]))
local fields, updates = unpack(cmsgpack.unpack(ARGV[3]))
local find, match, sub, format = string.find, string.match, string.sub, string.format
local concat, max = table.concat, math.max

local fence, lost = {}, false
for i = 1, #sources do
  fence[i] = tonumber(redis.call('HGET', bucket, sources[i]) or -1)
  lost = lost or fence[i] < begins[i] - 1
end
if lost then return {0, 0, 0, unpack(fence)} end

local n, mean, m2, last, last_at, ids, fresh = {}, {}, {}, {}, {}, {}, {}
for i = 1, #fields do
  local text = redis.call('HGET', bucket, fields[i])
  if text then
    local a, b, c, d, e, start = match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) ()')
    n[i], mean[i], m2[i] = tonumber(a), tonumber(b), tonumber(c)
    last[i], last_at[i], ids[i] = tonumber(d), tonumber(e), sub(text, start)
  else
    n[i], mean[i], m2[i], last[i], last_at[i], ids[i] = 0, 0, 0, 0, -math.huge, ''
  end
  fresh[i] = {}
end

local added, duplicates, redelivered = 0, 0, 0
for u = 1, #updates, 6 do
  local s, i, offset, id = updates[u], updates[u + 1], updates[u + 2], updates[u + 3]
  if offset <= fence[s] then
    redelivered = redelivered + 1
  else
    if fresh[i][id] or find(ids[i], id, 1, true) then
      duplicates = duplicates + 1
    else
      local value, at = updates[u + 4], updates[u + 5]
      n[i] = n[i] + 1
      local difference = value - mean[i]
      mean[i] = mean[i] + difference / n[i]
      m2[i] = m2[i] + max(0, difference * (value - mean[i]))
      if at > last_at[i] or (at == last_at[i] and value > last[i]) then
        last[i], last_at[i] = value, at
      end
      fresh[i][id] = true
      fresh[i][#fresh[i] + 1] = id
      added = added + 1
    end
  end
end

for i = 1, #fields do
  if fresh[i][1] then
    redis.call('HSET', bucket, fields[i],
      format('%.0f %.17g %.17g %.17g %.17g ', n[i], mean[i], m2[i], last[i], last_at[i])
        .. sub(ids[i] .. concat(fresh[i]), -room))
  end
end
for i = 1, #sources do
  if ends[i] - 1 > fence[i] then redis.call('HSET', bucket, sources[i], format('%.0f', ends[i] - 1)) end
end
return {added, duplicates, redelivered, unpack(fence)}
