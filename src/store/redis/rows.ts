import { sha256Hex } from '../../platform/sha256.ts'
import type { Rows } from '../leased/rows.ts'
import { plainScript } from './scripts.ts'
import { storeError, type Transition, type Transitions } from './transition.ts'

const NOW = `local t=redis.call('TIME')
local now=t[1]*1000+math.floor(t[2]/1000)
`

const READ = plainScript(`${NOW}local found={}
for i=1,#ARGV do found[i]=redis.call('HGET',KEYS[1],ARGV[i]) end
return {string.format('%.0f',now),found}`)

/** How many characters of the last nonces stay. Others may write before a caller sends its write again. */
const NONCES_KEPT = 32 * 37

/**
 * Nonce, the latest time or nothing, the number of expected fields; then fields, each with 1 and its value, or with 0
 * if it is absent. A nonce that is already there is this caller's own, sent again by its client after a lost reply. It is
 * written again, because WAIT counts only the writes of its connection.
 */
const WRITE = plainScript(`${NOW}local k=KEYS[1]
local nonces=redis.call('HGET',k,'~') or ''
if not string.find(nonces,ARGV[1],1,true) then
  if ARGV[2]~='' and now>tonumber(ARGV[2]) then return 0 end
  local sets=4+3*tonumber(ARGV[3])
  for i=4,sets-1,3 do
    local value=redis.call('HGET',k,ARGV[i])
    if (ARGV[i+1]=='1' and value~=ARGV[i+2]) or (ARGV[i+1]=='0' and value) then return 0 end
  end
  for i=sets,#ARGV,3 do
    if ARGV[i+1]=='1' then redis.call('HSET',k,ARGV[i],ARGV[i+2]) else redis.call('HDEL',k,ARGV[i]) end
  end
  nonces=string.sub(ARGV[1]..' '..nonces,1,${NONCES_KEPT})
end
redis.call('HSET',k,'~',nonces)
return 1`)

/** Each group of rows is one hash, because a script with two keys fails while a cluster moves their slot. */
export function redisRows(redis: Transitions): Rows {
  const run = (group: string, of: Omit<Transition, 'id'>): Promise<unknown> =>
    redis.run({ ...of, id: placeOf(group) }).catch((error: unknown) => {
      throw storeError(error)
    })
  return {
    async read(group, fields) {
      const reply = await run(group, { script: READ, args: fields })
      const [now, values] = reply as [string, (string | null)[]]
      return { values: fields.map((_, i) => values[i] ?? null), now: Number(now) }
    },
    async write(group, { expected, set, notAfter, mayBeLost = false }) {
      const args = [redis.parts.random.uuid(), notAfter === undefined ? '' : String(notAfter), String(expected.size)]
      for (const [field, value] of [...expected, ...set]) args.push(field, value === null ? '0' : '1', value ?? '')
      return Number(await run(group, { script: WRITE, args, replicated: !mayBeLost })) === 1
    },
  }
}

function placeOf(group: string): string {
  return `rows-${sha256Hex(`eo:rows:1;${group}`).slice(0, 32)}`
}
