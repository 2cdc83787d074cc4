import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { effectivelyOnce, type DeadLetter } from 'effectively-once'
import { sqliteStore } from 'effectively-once/sqlite'
import { ACCOUNTS, CLOSED_ACCOUNT, SERVICES, SKUS, type Order, type ServiceName } from './catalogue.ts'
import { placeOrder, type Seen } from './customers.ts'
import { openDatabases, type Databases } from './databases.ts'
import { isSettled, readWorld, type World } from './effects.ts'
import { reportOf, type Report } from './report.ts'
import { Service } from './service.ts'

export interface RunOptions {
  readonly orders: number
  readonly kills: number
  readonly seed: number
  /** For progress. */
  readonly say?: (line: string) => void
}

/** The time limit of the whole run. A run that takes longer is reported as a problem. */
const BASE_MS_MAX = 60_000
const KILL_MS_MAX = 1_500
const LIFE_MS_MAX = 2_000
const STARTING_SHARE = 0.1
const LOOK_MS = 250
const RESENT_MS_MAX = 15_000
const DECLINED_EVERY = 7

export async function runOrders({ orders: count, kills, seed, say = () => {} }: RunOptions): Promise<Report> {
  const startedAt = Date.now()
  const deadline = startedAt + BASE_MS_MAX + kills * KILL_MS_MAX
  const random = randomOf(seed)
  const orders = Array.from({ length: count }, (_, i) => orderOf(i, random))
  const folder = await mkdtemp(join(tmpdir(), 'effectively-once-order-'))
  const databases = await openDatabases(folder)
  const { provider, services, stop } = await startServices(databases)
  const problems: string[] = []
  try {
    const url = services.orders.url
    const chaos = { done: 0 }
    say(`${count} orders, ${kills} kills`)
    const [seen] = await Promise.all([
      Promise.all(orders.map((order, i) => placeWhenDue(url, order, () => chaos.done * count >= i * kills, deadline))),
      killAtRandom(Object.values(services), kills, random, chaos, deadline, problems),
    ])
    say(`${seen.filter(({ status }) => status > 0).length} orders answered; the rest arrives`)
    const look = (): Promise<World> => readWorld(databases, provider.url, orders)
    if (!(await until(async () => isSettled(await look(), orders, false), deadline))) {
      problems.push('not everything arrived in time')
    }
    const unpayable = orders.filter(({ card, referrer }) => card === 'good' && referrer === CLOSED_ACCOUNT)
    const parked = await redrive(databases, services.referrals, unpayable.length, deadline, problems, say)
    if (!(await until(async () => isSettled(await look(), orders, true), deadline))) {
      problems.push('not every credit arrived in time')
    }
    const resent = await sendAllAgain(databases, services, say)
    const again = await Promise.all(seen.map(({ key, order }) => placeOrder(url, order, deadline, key)))
    return reportOf({
      seed,
      kills: Object.fromEntries(SERVICES.map((name) => [name, services[name].kills])) as Record<ServiceName, number>,
      deliveries: deliveriesTo(services),
      published: 2 * orders.filter(({ card }) => card === 'good').length,
      resent,
      parked: parked.size,
      seconds: Math.round((Date.now() - startedAt) / 100) / 10,
      problems,
      seen: seen.map((first, i) => ({ first, again: again[i] as Seen, redriven: parked.has(first.order.id) })),
      world: await look(),
    })
  } finally {
    await stop()
    await databases.close()
    await rm(folder, { recursive: true, force: true })
  }
}

type Services = Readonly<Record<ServiceName, Service>>

async function startServices(
  databases: Databases,
): Promise<{ provider: Service; services: Services; stop: () => Promise<void> }> {
  const provider = new Service('provider', [''])
  const inventory = new Service('inventory', [databases.file('inventory')])
  const referrals = new Service('referrals', [databases.file('referrals')])
  const started = [provider, inventory, referrals]
  const stop = async (): Promise<void> => void (await Promise.all(started.map((service) => service.stop())))
  try {
    await Promise.all(started.map((service) => service.start()))
    const address = provider.url.slice(0, -1)
    const email = new Service('email', [databases.file('email'), address])
    started.push(email)
    await email.start()
    const receivers = [inventory.url, email.url, referrals.url]
    const orders = new Service('orders', [databases.file('orders'), address, ...receivers])
    started.push(orders)
    await orders.start()
    return { provider, services: { orders, inventory, email, referrals }, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function orderOf(i: number, random: () => number): Order {
  return {
    id: `order-${String(i + 1).padStart(3, '0')}`,
    customer: `customer-${(i % 5) + 1}`,
    sku: SKUS[Math.floor(random() * SKUS.length)] as string,
    amount: 100 + Math.floor(random() * 900),
    card: i % DECLINED_EVERY === DECLINED_EVERY - 1 ? 'declined' : 'good',
    referrer: ACCOUNTS[i % ACCOUNTS.length] as string,
  }
}

/** Places orders while processes die. The next order comes when its share of the kills is done. */
async function placeWhenDue(url: string, order: Order, isDue: () => boolean, deadline: number): Promise<Seen> {
  await until(async () => isDue(), deadline)
  return placeOrder(url, order, deadline)
}

/** Kills each service again and again, after a random time, sometimes while it is still starting. */
async function killAtRandom(
  services: readonly Service[],
  kills: number,
  random: () => number,
  chaos: { done: number },
  deadline: number,
  problems: string[],
): Promise<void> {
  const haunt = async (service: Service): Promise<void> => {
    while (chaos.done < kills && Date.now() < deadline) {
      await sleep(random() * LIFE_MS_MAX)
      if (chaos.done >= kills) return
      chaos.done++
      service.kill()
      if (random() >= STARTING_SHARE) await service.start()
    }
  }
  await Promise.all(services.map(haunt))
  if (chaos.done < kills) problems.push(`only ${chaos.done} of ${kills} kills were made in time`)
  chaos.done = kills
  const isUp = async (): Promise<boolean> => services.every((service) => service.isListening)
  if (!(await until(isUp, deadline))) problems.push('not every service came back')
}

/** Acts as the operator: looks at the dead letters, fixes the cause, and redrives them. The service dies meanwhile. */
async function redrive(
  databases: Databases,
  referrals: Service,
  expected: number,
  deadline: number,
  problems: string[],
  say: (line: string) => void,
): Promise<Set<string>> {
  const once = effectivelyOnce({
    namespace: 'referrals',
    store: sqliteStore({ file: databases.file('referrals') }),
    sweep: false,
  })
  try {
    const list = (): Promise<readonly DeadLetter[]> =>
      once.deadLetters.list({ consumer: 'referrals' }, { limit: 10_000 })
    const ordersOf = (letters: readonly DeadLetter[]): Set<string> =>
      new Set(letters.flatMap(({ aggregate }) => aggregate ?? []))
    // Wait until the credits are parked. If the cause were fixed earlier, there would be no dead letter.
    if (!(await until(async () => ordersOf(await list()).size >= expected, deadline))) {
      problems.push('not every credit to a closed account was parked in time')
    }
    const letters = await list()
    if (letters.length === 0) return new Set()
    say(`${letters.length} dead letters: ${letters[0]?.error}; the account is opened, and they are redriven`)
    await databases.rows('referrals', `update accounts set is_open = 1 where name = '${CLOSED_ACCOUNT}' returning name`)
    const by = { by: 'the example', why: 'the account is open' }
    const { id } = await once.redrive.run({ consumer: 'referrals' }, { ...by, rate: 10, canary: 1 })
    referrals.kill()
    await referrals.start()
    const isOver = async (): Promise<boolean> => (await once.redrive.status(id))?.state === 'done'
    if (!(await until(isOver, deadline))) {
      const status = await once.redrive.status(id)
      problems.push(`the redrive is ${status?.state}, with ${status?.left} letters left: ${status?.reason ?? ''}`)
    }
    return ordersOf(letters)
  } finally {
    await once.close()
  }
}

/** Sends every event once more, under new broker ids. The inboxes know all of them. */
async function sendAllAgain(databases: Databases, services: Services, say: (line: string) => void): Promise<number> {
  const once = effectivelyOnce({
    namespace: 'orders',
    store: sqliteStore({ file: databases.file('orders') }),
    sweep: false,
  })
  try {
    const before = deliveriesTo(services)
    const resent = await once.resend({ since: new Date(0) })
    say(`${resent} events are sent again`)
    await until(async () => deliveriesTo(services) >= before + resent, Date.now() + RESENT_MS_MAX)
    return resent
  } finally {
    await once.close()
  }
}

function deliveriesTo(services: Services): number {
  return Object.values(services).reduce((sum, { deliveries }) => sum + deliveries, 0)
}

async function until(isSo: () => Promise<boolean>, deadline: number): Promise<boolean> {
  while (Date.now() < deadline) {
    if (await isSo()) return true
    await sleep(LOOK_MS)
  }
  return false
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Mulberry32: the same seed kills in the same order, but not at exactly the same moments. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
