import type { ScriptName } from './rules.ts'

/** A realistic bug of a script, or of the code that waits for its replicas. */
export interface Mutant {
  /** The finding of the protocol that warns of it. */
  readonly of: string
  readonly name: string
  /** Where a script changes. The text occurs in it exactly once. */
  readonly script?: { readonly in: ScriptName; readonly find: string; readonly replace: string }
  /** A world that is known to show it. The hunt begins there. Default 1 */
  readonly seed?: number
  /** The scripts whose writes are not waited for. */
  readonly unconfirmed?: (script: ScriptName, args: readonly string[]) => boolean
}

const HELD = `if string.sub(v,1,#ARGV[1]+3)~='1;'..ARGV[1]..';' then`
const RUNS = `if string.sub(v,1,1)~='1' then`
const OWN_COMPLETION = `if string.sub(v,1,2)=='2;' and string.find(v,ARGV[2]..'|',1,true) then`

export const MUTANTS: readonly Mutant[] = [
  {
    of: 'R1',
    name: 'a running record has a time to live',
    script: {
      in: 'CLAIM',
      find: 'if ARGV[3] then',
      replace: `redis.call('PEXPIRE',k,string.match(ARGV[1],'^;(%d+)000;')) if ARGV[3] then`,
    },
  },
  {
    of: 'R1',
    name: 'a completion forgets the token',
    seed: 12,
    script: { in: 'FINISH', find: `if string.sub(v,1,#t+3)~='1;'..t..';' then`, replace: RUNS },
  },
  { of: 'R1', name: 'a step forgets the token', script: { in: 'STEP', find: HELD, replace: RUNS } },
  { of: 'R1', name: 'a heartbeat forgets the token', script: { in: 'LEASE', find: HELD, replace: RUNS } },
  {
    of: 'R1',
    name: 'takes over a lease that has not lapsed',
    seed: 85,
    script: { in: 'TAKE_OVER', find: `if s~='1' or b+u>now or b+e<=now then`, replace: `if s~='1' or b+e<=now then` },
  },
  {
    of: 'R2',
    name: 'a claim does not know itself',
    seed: 17,
    script: {
      in: 'CLAIM',
      find: `if s=='1' and n==string.match(ARGV[1],'[^;]*$') then`,
      replace: 'if false then',
    },
  },
  {
    of: 'R2',
    name: 'a takeover does not know itself',
    script: { in: 'TAKE_OVER', find: `if s=='1' and n==ARGV[1] then`, replace: 'if false then' },
  },
  {
    of: 'R2',
    name: 'a completion does not know itself',
    script: { in: 'FINISH', find: OWN_COMPLETION, replace: 'if false then' },
  },
  { of: 'R3', name: 'runs before a replica has the claim', unconfirmed: (script) => script === 'CLAIM' },
  {
    of: 'R3',
    name: 'a claim that is sent again waits for no replica, because it writes nothing',
    seed: 262,
    script: { in: 'CLAIM', find: `redis.call('HSET',k,'r',v) return t`, replace: 'return t' },
  },
  {
    of: 'R3',
    name: 'makes a call before a replica knows of it',
    unconfirmed: (script) => script === 'START',
  },
  { of: 'R3', name: 'answers before a replica has the answer', unconfirmed: (script) => script === 'FINISH' },
  {
    of: 'R3',
    name: 'a completion that is sent again waits for no replica, because it writes nothing',
    seed: 143,
    script: { in: 'FINISH', find: `redis.call('HSET',k,'r',v) return 1`, replace: 'return 1' },
  },
  {
    of: 'R4',
    name: 'a promoted server whose clock is behind gives lower tokens',
    seed: 85,
    script: { in: 'TAKE_OVER', find: 'whole(math.max(t+1,now))', replace: 'whole(now)' },
  },
]

/** The script's text with the mutant applied. */
export function mutated(text: string, name: string, mutant: Mutant | null): string {
  if (mutant?.script?.in !== name) return text
  const { find, replace } = mutant.script
  const parts = text.split(find)
  if (parts.length !== 2) throw new Error(`mutant '${mutant.name}': its text is there ${parts.length - 1} times`)
  return parts.join(replace)
}
