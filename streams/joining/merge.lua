-- Store parts of attempts; return the parts of those that have a submission and a completion.
-- KEYS     the fences of a bucket, then hashes of attempts, all in one slot
-- ARGV     TTL in seconds before and after an attempt is complete, length of a rank, offset ranges (MessagePack of
--          {fence fields, begins, ends}), MessagePack of one list per attempt: the change count that the caller has
--          seen, or '', then name and value of each new part
-- Returns  MessagePack of one list per attempt: name and value of all fields, or empty if the attempt is incomplete
--          or unchanged for the caller; then the fences before the call. If a range begins beyond its fence, parts
--          have been lost and nothing is stored.
-- A value begins with its rank, fixed-length text of digits and a-f. The greatest rank of a part wins, so arrival order
-- does not matter and the merge is idempotent. Field n counts changes.
local length = tonumber(ARGV[3])

local function store(key, seen_and_parts)
  local changes = 0
  for i = 2, #seen_and_parts, 2 do
    local name, value = seen_and_parts[i], seen_and_parts[i + 1]
    local stored = redis.call('HGET', key, name)
    if not stored or string.sub(stored, 1, length) < string.sub(value, 1, length) then
      redis.call('HSET', key, name, value)
      changes = changes + 1
    end
  end
  if changes > 0 then
    redis.call('HINCRBY', key, 'n', changes)
  end
  local current = redis.call('HMGET', key, 'n', 'submitted', 'completed')
  local complete = current[2] and current[3]
  redis.call('EXPIRE', key, complete and ARGV[2] or ARGV[1])
  if complete and current[1] ~= seen_and_parts[1] then
    return redis.call('HGETALL', key)
  end
  return {}
end

local sources, begins, ends = unpack(cmsgpack.unpack(ARGV[4]))
local fences, lost = {}, false
for i = 1, #sources do
  fences[i] = tonumber(redis.call('HGET', KEYS[1], sources[i]) or -1)
  lost = lost or fences[i] < begins[i] - 1
end
local answers = {}
if not lost then
  for i, seen_and_parts in ipairs(cmsgpack.unpack(ARGV[5])) do
    answers[i] = store(KEYS[i + 1], seen_and_parts)
  end
  for i = 1, #sources do
    if ends[i] - 1 > fences[i] then redis.call('HSET', KEYS[1], sources[i], string.format('%.0f', ends[i] - 1)) end
  end
end
return {cmsgpack.pack(answers), unpack(fences)}
