import { CLOSED_ACCOUNT, REWARD, STOCK, type Order } from './catalogue.ts'
import type { Databases } from './databases.ts'
import type { Entry } from './services/provider.ts'

/** The effects of one order, counted in four databases and in the provider's books. */
export interface Effects {
  /** How often money was taken, and how often the provider was asked for it. */
  readonly charges: number
  readonly asked: number
  /** Couriers that were booked, and those that were cancelled again. */
  readonly couriers: number
  readonly cancellations: number
  readonly orders: number
  readonly movements: number
  /** The number of mails sent, and how long after the charge the first one was sent. */
  readonly mails: number
  readonly mailAfterMs: number | null
  readonly credits: number
}

export interface World {
  readonly of: ReadonlyMap<string, Effects>
  readonly stock: ReadonlyMap<string, number>
  readonly balances: ReadonlyMap<string, number>
}

export async function readWorld(databases: Databases, provider: string, orders: readonly Order[]): Promise<World> {
  const books = (await (await fetch(provider, { signal: AbortSignal.timeout(10_000) })).json()) as readonly Entry[]
  const rowsOf = async (service: 'orders' | 'inventory' | 'referrals', table: string): Promise<Map<string, number>> => {
    const rows = await databases.rows<{ order_id: string }>(service, `select order_id from ${table}`)
    const counts = new Map<string, number>()
    for (const { order_id } of rows) counts.set(order_id, (counts.get(order_id) ?? 0) + 1)
    return counts
  }
  const placed = await rowsOf('orders', 'orders')
  const moved = await rowsOf('inventory', 'movements')
  const credited = await rowsOf('referrals', 'credits')
  const effectsOf = ({ id }: Order): Effects => {
    const entries = books.filter(({ order }) => order === id)
    const payments = entries.filter(({ kind }) => kind === 'payment')
    const mails = entries.filter(({ kind }) => kind === 'mail')
    return {
      charges: payments.length,
      asked: entries
        .filter(({ kind }) => kind === 'payment' || kind === 'refusal')
        .reduce((sum, entry) => sum + entry.asked, 0),
      couriers: entries.filter(({ kind }) => kind === 'courier').length,
      cancellations: entries.filter(({ kind }) => kind === 'cancellation').length,
      orders: placed.get(id) ?? 0,
      movements: moved.get(id) ?? 0,
      mails: mails.length,
      mailAfterMs: mails[0] && payments[0] ? mails[0].at - payments[0].at : null,
      credits: credited.get(id) ?? 0,
    }
  }
  const stock = await databases.rows<{ sku: string; units: number }>('inventory', 'select sku, units from stock')
  const balances = await databases.rows<{ name: string; balance: number }>('referrals', 'select * from accounts')
  return {
    of: new Map(orders.map((order) => [order.id, effectsOf(order)])),
    stock: new Map(stock.map(({ sku, units }) => [sku, units])),
    balances: new Map(balances.map(({ name, balance }) => [name, balance])),
  }
}

/** Whether nothing more will happen. A credit to a closed account waits for the redrive. */
export function isSettled(world: World, orders: readonly Order[], closedIsPaid: boolean): boolean {
  return orders.every((order) => {
    const effects = world.of.get(order.id)
    if (!effects) return false
    if (order.card === 'declined') return effects.asked > 0
    const credit = closedIsPaid || order.referrer !== CLOSED_ACCOUNT ? 1 : 0
    return effects.orders > 0 && effects.movements > 0 && effects.mails > 0 && effects.credits >= credit
  })
}

/** Sums show what counts of rows cannot: a stock that was decremented twice in one row. */
export function sumsOff({ stock, balances }: World, orders: readonly Order[]): string[] {
  const good = orders.filter(({ card }) => card === 'good')
  const stockOff = [...stock].flatMap(([sku, units]) => {
    const expected = STOCK - good.filter((order) => order.sku === sku).length
    return units === expected ? [] : [`the stock of ${sku} is ${units}, not ${expected}`]
  })
  const balancesOff = [...balances].flatMap(([name, balance]) => {
    const expected = REWARD * good.filter(({ referrer }) => referrer === name).length
    return balance === expected ? [] : [`the balance of ${name} is ${balance}, not ${expected}`]
  })
  return [...stockOff, ...balancesOff]
}
