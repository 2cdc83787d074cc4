import { createHash } from 'node:crypto'

/**
 * The transitions of one record, in Lua. Redis runs a script as a whole, so each compares and writes at once. A record
 * is one hash, because a script with two keys fails while a cluster moves their slot.
 *
 * Fields: `s` state, `f` and `v` fingerprint and its version, `t` token, `l` life, `a` attempt, `u` the end of the
 * lease, `e` expiry, `g` the time when the key is forgotten, `n` the nonce of the last writer, `A` the answer. `b…` is
 * the text for operators, `r…` the input to recover, and a colon with a name is a step. Times are microseconds of the server's
 * clock. A token is such a time, or the previous token plus one.
 */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** The fields of a running record without steps and input: ten, and three for operators. */
const BASE_FIELDS = 13

const stateOf = (read: string): string => `local k=KEYS[1]
local t=redis.call('TIME')
local now=t[1]*1000000+t[2]
local function whole(x) return string.format('%.0f',x) end
${read}
local function at(i) return tonumber(r[i]) or 0 end
local function fresh() return whole(math.max(at(4)+1,now)) end
local function after(us) return whole(now+us) end
local function own() if r[10]~=ARGV[1] then return false end redis.call('HSET',k,'n',ARGV[1]) return true end
`

const WHOLE = `local r=redis.call('HMGET',k,'s','f','v','t','l','a','u','e','g','n')`
/** State, token and nonce: enough for the holder's own writes. */
const FENCE = `local q=redis.call('HMGET',k,'s','t','n') local r={[1]=q[1],[4]=q[2],[10]=q[3]}`

/**
 * Completes the record and drops steps and input. Only now does the key get a time to live. A server that can expire
 * single fields (Redis 7.4, Valkey 9) drops the answer itself at `replayFor`, and keeps the rest for 410.
 */
const COMPLETE = `local function complete()
if redis.call('HLEN',k)>${BASE_FIELDS} then
  for _,f in ipairs(redis.call('HKEYS',k)) do if f:find('^[:r]') then redis.call('HDEL',k,f) end end
end
redis.call('HSET',k,'s','2','e',after(ARGV[2]*1000),'g',after((ARGV[2]+ARGV[3])*1000),'n',ARGV[1],'A',ARGV[5])
redis.call('PEXPIRE',k,whole(math.max(ARGV[2]+ARGV[3],ARGV[4])))
if redis.REDIS_VERSION_NUM>=0x70400 or (redis.VALKEY_VERSION_NUM or 0)>=0x90000 then redis.call('HPEXPIRE',k,whole(ARGV[2]),'FIELDS','1','A') end
end
`

/**
 * Nonce, `replayFor`, `goneFor`, fingerprint and its version, lease, and the token and state that the caller has seen
 * (empty: none). Then fields and values to store. A nonce that is already there is this caller's own, sent again by its
 * client after a lost reply. It is written again, because WAIT counts only the writes of its connection.
 */
export const CLAIM: Script = script(`
local function won(token,life,attempt,expires) return {1,token,life,attempt,expires} end
if r[1]=='1' and own() then return won(r[4],r[5],r[6],r[8]) end
local lost={0,whole(now),unpack(r,1,9)}
if ARGV[7]=='' then
  if r[1] then return lost end
elseif r[4]~=ARGV[7] or r[1]~=ARGV[8] then return lost
elseif r[1]=='2' then if at(8)>now then return lost end
elseif r[1]~='1' or at(7)>now or at(8)<=now then return lost
end
local token,life,attempt,expires,forget=fresh(),r[5],whole(math.min(at(6)+1,32000)),r[8],r[9]
if r[1]~='1' then
  life,attempt,expires,forget=token,'1',after(ARGV[2]*1000),after((ARGV[2]+ARGV[3])*1000)
  if r[1] then redis.call('DEL',k) end
end
redis.call('HSET',k,'s','1','f',ARGV[4],'v',ARGV[5],'t',token,'l',life,'a',attempt,'u',after(ARGV[6]*1000),'e',expires,'g',forget,'n',ARGV[1],unpack(ARGV,9))
return won(token,life,attempt,expires)`)

export const READ: Script = script(`return {whole(now),redis.call('HGET',k,'A'),unpack(r,1,9)}`)

export const SHOW: Script = script(`return {whole(now),redis.call('HMGET',k,'bn','br','bl','rn','ri'),unpack(r,1,9)}`)

const HELD = `if r[1]~='1' or r[4]~=ARGV[2] then return 0 end
`

/** Token and lease. A lease of 0 ends now. */
export const LEASE: Script = script(`${HELD}redis.call('HSET',k,'u',after(ARGV[3]*1000)) return 1`, FENCE)

/** Token, field and value. */
export const STEP: Script = script(`${HELD}redis.call('HSET',k,ARGV[3],ARGV[4]) return 1`, FENCE)

/** Takes back the start of a call that will not be made. */
export const UNSTEP: Script = script(
  `${HELD}if redis.call('HGET',k,ARGV[3])=='' then redis.call('HDEL',k,ARGV[3]) end return 1`,
  FENCE,
)

export const SUSPEND: Script = script(`if r[1]=='3' and own() then return 1 end
${HELD}redis.call('HSET',k,'s','3','u',whole(math.min(at(7),now)),'n',ARGV[1]) return 1`)

/** Nonce, `replayFor`, `goneFor`, the least time to keep the token, answer, and the holder's token. */
export const FINISH: Script = script(
  `${COMPLETE}if r[1]=='2' and own() then return 1 end
if r[1]~='1' or r[4]~=ARGV[6] then return 0 end
complete() return 1`,
  FENCE,
)

/** As above, for an operator: ends an operation that is unknown, or abandoned. */
export const FAIL: Script = script(`${COMPLETE}if own() then return 1 end
if r[1]~='3' and (r[1]~='1' or at(7)>now) then return 0 end
complete() return 1`)

const AGAIN = `redis.call('HSET',k,'s','1','t',fresh(),'u',whole(now),'e',whole(math.max(at(8),now+ARGV[2]*1000)),'g',whole(math.max(at(9),now+(ARGV[2]+ARGV[3])*1000)),'n',ARGV[1])
`

/** Nonce, `replayFor`, `goneFor`, the step's field and its result, if there is one. A higher token fences the holder. */
export const GO_ON: Script = script(`if own() then return 1 end
if r[1]~='3' and (r[1]~='1' or at(7)>now or at(8)>now) then return 0 end
${AGAIN}if ARGV[5] then redis.call('HSET',k,ARGV[4],ARGV[5]) else redis.call('HDEL',k,ARGV[4]) end
return 1`)

/** Nonce, `replayFor`, `goneFor`. Refused while a call without a key is open. */
export const EVICT: Script = script(`if own() then return 1 end
if r[1]~='1' and r[1]~='3' then return 0 end
local all=redis.call('HGETALL',k)
for i=1,#all,2 do if string.sub(all[i],1,1)==':' and all[i+1]=='' then return 0 end end
${AGAIN}return 1`)

function script(body: string, read = WHOLE): Script {
  return plainScript(stateOf(read) + body)
}

/** A script about another hash than a record. */
export function plainScript(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
