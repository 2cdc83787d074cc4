-- The clients of bench/support/http.ts where wrk is installed: path, prefix and number of keys (0: always a new one).
local path, prefix, count
local sent = 0
local headers = { ["content-type"] = "application/json" }

function init(args)
  path, prefix, count = args[1], args[2], tonumber(args[3])
end

function request()
  local at = sent
  if count > 0 then at = sent % count end
  sent = sent + 1
  headers["idempotency-key"] = prefix .. "-" .. at
  local body = string.format('{"account":"account-%d","amount":%d}', at % 1000, 100 + at % 900)
  return wrk.format("POST", path, headers, body)
end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\n{"operations":%d,"seconds":%f,"failed":%d}\n', summary.requests, summary.duration / 1e6, failed))
end
