/** What a visitor can set. The vertices belong to a round: an operation keeps the vertices that it started with. */
export interface Vertices {
  /** Requests carry an idempotency key. Off: the handler runs for every request. */
  readonly key: boolean
  /** Events are published in the charge's transaction. Off: they are sent outside the transaction, after the answer. */
  readonly outbox: boolean
  /** Deliveries are deduplicated in the receipt's transaction. Off: every delivery is applied. */
  readonly inbox: boolean
}

export interface Faults {
  /** Some answers never reach the customer, who then retries. */
  readonly lostResponses: boolean
  /** Every request is sent several times at once, and again after its answer. */
  readonly retryStorm: boolean
  /** The point at which a process is killed, again and again. */
  readonly crash: CrashChoice
  /** The broker delivers events more than once. */
  readonly duplicates: boolean
}

export interface Settings {
  readonly vertices: Vertices
  readonly faults: Faults
  /** Charges per second that customers request on their own. */
  readonly traffic: number
}

/** Points in the code at which a process may be killed, and the process that each point belongs to. */
export const CRASH_POINTS = {
  'before-commit': 'shop',
  'after-commit': 'shop',
  'after-send': 'shop',
  'before-ack': 'receipts',
} as const satisfies Record<string, ServiceName>

export type ServiceName = 'shop' | 'receipts'
export type CrashPoint = keyof typeof CRASH_POINTS
export type CrashChoice = 'off' | 'anywhere' | CrashPoint

export const TRAFFIC_MAX = 20
export const ALL_VERTICES: Vertices = { key: true, outbox: true, inbox: true }
export const NO_FAULTS: Faults = { lostResponses: false, retryStorm: false, crash: 'off', duplicates: false }
export const AT_THE_START: Settings = { vertices: ALL_VERTICES, faults: NO_FAULTS, traffic: 0 }

export function isCrashPoint(text: unknown): text is CrashPoint {
  return typeof text === 'string' && Object.hasOwn(CRASH_POINTS, text)
}

/** Applies the page's changes to the current settings. Returns one line about a mistake instead, if there is one. */
export function changeSettings(now: Settings, change: unknown): Settings | string {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return 'settings are a JSON object'
  const { vertices = {}, faults = {}, traffic = now.traffic, ...others } = change as Record<string, unknown>
  const [other] = Object.keys(others)
  if (other !== undefined) return `there is no setting '${other.slice(0, 40)}'`
  const newVertices = changeFlags(now.vertices, vertices)
  if (typeof newVertices === 'string') return newVertices
  const { crash = now.faults.crash, ...flags } = Object(faults) as Record<string, unknown>
  if (crash !== 'off' && crash !== 'anywhere' && !isCrashPoint(crash)) return 'there is no such point to crash at'
  const { crash: _crash, ...oldFlags } = now.faults
  const newFlags = changeFlags(oldFlags, flags)
  if (typeof newFlags === 'string') return newFlags
  if (typeof traffic !== 'number' || !(traffic >= 0 && traffic <= TRAFFIC_MAX)) {
    return `traffic is a number from 0 to ${TRAFFIC_MAX}`
  }
  return { vertices: newVertices, faults: { ...newFlags, crash }, traffic }
}

function changeFlags<F extends { readonly [name in keyof F]: boolean }>(now: F, change: unknown): F | string {
  for (const [name, value] of Object.entries(Object(change) as object)) {
    if (!Object.hasOwn(now, name)) return `there is no setting '${name.slice(0, 40)}'`
    if (typeof value !== 'boolean') return `${name} is true or false`
  }
  return { ...now, ...(change as Partial<F>) }
}
