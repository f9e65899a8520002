-- Keep parts of attempts; return the parts of those that have a submission and a completion.
-- KEYS     hashes of attempts, all of one slot
-- ARGV     seconds to live before and after an attempt is complete, length of a rank, MessagePack of one
--          list for each key: the count of changes that the caller has seen, or '', then name and value of
--          each new part
-- Returns  MessagePack of one list for each key: name and value of all fields, or none if the attempt is
--          not complete or is as the caller has seen it
-- A value begins with its rank, fixed-length text of digits and a-f: of one part the greatest rank is kept,
-- so that the order of arrival does not matter and writing again changes nothing. Field n counts changes.
local length = tonumber(ARGV[3])

local function keep(key, seen_and_parts)
  local changes = 0
  for i = 2, #seen_and_parts, 2 do
    local name, value = seen_and_parts[i], seen_and_parts[i + 1]
    local kept = redis.call('HGET', key, name)
    if not kept or string.sub(kept, 1, length) < string.sub(value, 1, length) then
      redis.call('HSET', key, name, value)
      changes = changes + 1
    end
  end
  if changes > 0 then
    redis.call('HINCRBY', key, 'n', changes)
  end
  local found = redis.call('HMGET', key, 'n', 'submitted', 'completed')
  local complete = found[2] and found[3]
  redis.call('EXPIRE', key, complete and ARGV[2] or ARGV[1])
  if complete and found[1] ~= seen_and_parts[1] then
    return redis.call('HGETALL', key)
  end
  return {}
end

local answers = {}
for i, seen_and_parts in ipairs(cmsgpack.unpack(ARGV[4])) do
  answers[i] = keep(KEYS[i], seen_and_parts)
end
return cmsgpack.pack(answers)
