-- Keep parts of one attempt; return all that is kept once there are a submission and a completion.
-- KEYS[1] hash of the attempt
-- ARGV    seconds to live, length of a rank, then name and value of each part
-- A value begins with its rank, fixed-length text of digits and a-f: of one part the greatest rank is kept,
-- so that the order of arrival does not matter and writing again changes nothing. Field n counts changes.
local length = tonumber(ARGV[2])
for i = 3, #ARGV, 2 do
  local kept = redis.call('HGET', KEYS[1], ARGV[i])
  if not kept or string.sub(kept, 1, length) < string.sub(ARGV[i + 1], 1, length) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    redis.call('HINCRBY', KEYS[1], 'n', 1)
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if redis.call('HEXISTS', KEYS[1], 'submitted') + redis.call('HEXISTS', KEYS[1], 'completed') == 2 then
  return redis.call('HGETALL', KEYS[1])
end
return {}
