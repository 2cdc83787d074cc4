import { createHash } from 'node:crypto'

/**
 * The transitions of one record, in Lua. Redis runs a script as a whole, so each compares and writes at once. A record
 * is one hash, because a script with two keys fails while a cluster moves their slot.
 *
 * Fields: `r` the record, `A` the answer, `in` and `i` the name and text of the input to recover, and a colon with a
 * name for each step. The record is one text, `s;t;b;u;e;g;n|l;a;v;f;about`:
 *
 * - `s` state, `t` token, `n` the nonce of the last writer.
 * - `b` a time, in microseconds of the server's clock. From there, also in microseconds: `u` the end of the lease, `e`
 *   expiry, `g` the time when the key is forgotten.
 * - `l` life, `a` attempt, `v` and `f` fingerprint and its version, and the text for operators.
 *
 * A token is a time, or the previous token plus one. Claim and completion are the frequent transitions. Numbers and
 * matches cost the server more than a copy, so these two only put texts together.
 */
export interface Script {
  readonly text: string
  readonly sha: string
}

const TIME = `local c=redis.call('TIME')
local time=c[1]..string.format('%06d',c[2])
`

/** Ends the script if there is no record. */
const READ_TEXT = `local k=KEYS[1]
local v=redis.call('HGET',k,'r')
if not v then return 0 end
`

const PARSE = `local s,t,b,u,e,g,n,l,a,rest=string.match(v,'^(%d);(%d+);(%d+);(%-?%d+);(%-?%d+);(%-?%d+);([^|]*)|(%d+);(%d+)(;.*)$')
local function whole(x) return string.format('%.0f',x) end
`

const NOW = `${TIME}local now=tonumber(time)
`

type Parts = readonly [s: string, t: string, b: string, u: string, e: string, g: string, n: string]
/** Writes the record again. Life, attempt and all after them stay. */
const write = (...parts: Parts): string =>
  `redis.call('HSET',k,'r',table.concat({${parts.join(',')}},';')..'|'..l..';'..a..rest)
`

/** A nonce that is there is the caller's own. It is written again, because WAIT counts only the writes of its connection. */
const OWN = `if n==ARGV[1] then redis.call('HSET',k,'r',v) return 1 end
`

/**
 * Drops everything but the record. The key itself must not be deleted: while a cluster moves its slot, the server refuses
 * the next command of the script about a key that is gone, and what the script has done so far stays.
 */
const STRIP = `for _,f in ipairs(redis.call('HKEYS',k)) do if f~='r' then redis.call('HDEL',k,f) end end
`

/**
 * A new key. `;u;e;g;n|` and what follows the life; then fields and values to store. The reply is the token, or else
 * the time and the record that is there. A record with the same nonce is this caller's own, sent again by its client
 * after a lost reply. It is written again, because WAIT counts only the writes of its connection.
 */
export const CLAIM: Script = plainScript(`local k=KEYS[1]
${TIME}if redis.call('HSETNX',k,'r','1;'..time..';'..time..ARGV[1]..time..ARGV[2])==1 then
  if ARGV[3] then redis.call('HSET',k,unpack(ARGV,3)) end
  return time
end
local v=redis.call('HGET',k,'r')
local s,t,n=string.match(v,'^(%d);(%d+);.-;([^;|]*|)')
if s=='1' and n==string.match(ARGV[1],'[^;]*$') then redis.call('HSET',k,'r',v) return t end
return {time,v}`)

/**
 * A key with a record. Nonce, the token and the state that the caller has seen, lease, `replayFor`, `goneFor`, and what
 * follows the attempt; then fields and values to store. The reply is the record, or nothing if another was quicker.
 */
export const TAKE_OVER: Script = script(`if s=='1' and n==ARGV[1] then redis.call('HSET',k,'r',v) return v end
${NOW}if t~=ARGV[2] or s~=ARGV[3] then return 0 end
rest=ARGV[7]
local next=whole(math.max(t+1,now))
if s=='2' then
  if b+e>now then return 0 end
  ${STRIP}redis.call('PERSIST',k)
  l,a,e,g=next,'1',ARGV[5]*1000,(ARGV[5]+ARGV[6])*1000
else
  if s~='1' or b+u>now or b+e<=now then return 0 end
  a,e,g=whole(math.min(a+1,32000)),b+e-now,b+g-now
end
${write(`'1'`, 'next', 'time', 'whole(ARGV[4]*1000)', 'whole(e)', 'whole(g)', 'ARGV[1]')}if ARGV[8] then redis.call('HSET',k,unpack(ARGV,8)) end
return redis.call('HGET',k,'r')`)

export const READ: Script = plainScript(`${TIME}local r=redis.call('HMGET',KEYS[1],'r','A')
return {time,r[1],r[2]}`)

export const SHOW: Script = plainScript(`${TIME}local r=redis.call('HMGET',KEYS[1],'r','in','i')
return {time,r[1],r[2],r[3]}`)

/** A script, because a client may send a plain read to a replica. The reply is a flat list of fields and values. */
export const STEPS: Script = plainScript(`return redis.call('HGETALL',KEYS[1])`)

/** Token. */
const HELD = `if string.sub(v,1,#ARGV[1]+3)~='1;'..ARGV[1]..';' then return 0 end
`

/** Token and lease. A lease of 0 ends now. */
export const LEASE: Script = plainScript(
  `${READ_TEXT}${HELD}${PARSE}${NOW}${write('s', 't', 'b', 'whole(now+ARGV[2]*1000-b)', 'e', 'g', 'n')}return 1`,
)

/** Token, field and value. */
export const STEP: Script = plainScript(`${READ_TEXT}${HELD}redis.call('HSET',k,ARGV[2],ARGV[3]) return 1`)

/**
 * Token and field. A client may send this twice, and the second may arrive after the result, which must stay. What is
 * there is written again, because WAIT counts only the writes of its connection.
 */
export const START: Script = plainScript(
  `${READ_TEXT}${HELD}redis.call('HSET',k,ARGV[2],redis.call('HGET',k,ARGV[2]) or '') return 1`,
)

/** Takes back the start of a call that will not be made. */
export const UNSTEP: Script = plainScript(
  `${READ_TEXT}${HELD}if redis.call('HGET',k,ARGV[2])=='' then redis.call('HDEL',k,ARGV[2]) end return 1`,
)

/** Nonce and token. */
export const SUSPEND: Script = script(`if s=='3' then ${OWN}end
if s~='1' or t~=ARGV[2] then return 0 end
${NOW}${write(`'3'`, 't', 'b', 'whole(math.min(u,now-b))', 'e', 'g', 'ARGV[1]')}return 1`)

/**
 * Completes the record, and drops steps and input. Only now does the key get a time to live. A server that can expire
 * single fields (Redis 7.4, Valkey 9) drops the answer itself soon after `replayFor`, and keeps the rest for 410.
 */
const COMPLETE = `if redis.call('HLEN',k)>1 then ${STRIP}end
redis.call('HSET',k,'r','2;'..t..';'..time..ARGV[2]..string.sub(v,(string.find(v,'|',1,true))),'A',ARGV[4])
redis.call('PEXPIRE',k,ARGV[3])
if redis.REDIS_VERSION_NUM>=0x70400 or (redis.VALKEY_VERSION_NUM or 0)>=0x90000 then redis.call('HPEXPIRE',k,ARGV[5],'FIELDS','1','A') end
return 1`

/** Whether this caller has completed the record already. */
const COMPLETED = `if string.sub(v,1,2)=='2;' and string.find(v,ARGV[2]..'|',1,true) then redis.call('HSET',k,'r',v) return 1 end
`

/** The holder's token, `;u;e;g;n`, the key's time to live, answer, and the answer's time to live. */
export const FINISH: Script = plainScript(
  `${READ_TEXT}local t=ARGV[1]
if string.sub(v,1,#t+3)~='1;'..t..';' then
${COMPLETED}return 0
end
${TIME}${COMPLETE}`,
)

/** As above without a token, for an operator: ends an operation that is unknown, or abandoned. */
export const FAIL: Script = script(`${COMPLETED}${NOW}if s~='3' and (s~='1' or b+u>now) then return 0 end
${COMPLETE}`)

/** A higher token fences the holder. */
const AGAIN = write(
  `'1'`,
  'whole(math.max(t+1,now))',
  'time',
  `'0'`,
  'whole(math.max(b+e-now,ARGV[2]*1000))',
  'whole(math.max(b+g-now,(ARGV[2]+ARGV[3])*1000))',
  'ARGV[1]',
)

/** Nonce, `replayFor`, `goneFor`, the step's field and its result, if there is one. */
export const GO_ON: Script = script(`${OWN}${NOW}if s~='3' and (s~='1' or b+u>now or b+e>now) then return 0 end
${AGAIN}if ARGV[5] then redis.call('HSET',k,ARGV[4],ARGV[5]) else redis.call('HDEL',k,ARGV[4]) end
return 1`)

/** Nonce, `replayFor`, `goneFor`. Refused while a call without a key is open. */
export const EVICT: Script = script(`${OWN}${NOW}if s~='1' and s~='3' then return 0 end
local all=redis.call('HGETALL',k)
for i=1,#all,2 do if string.sub(all[i],1,1)==':' and all[i+1]=='' then return 0 end end
${AGAIN}return 1`)

function script(body: string): Script {
  return plainScript(READ_TEXT + PARSE + body)
}

/** A script about another hash than a record. */
export function plainScript(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
