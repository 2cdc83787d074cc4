import { once as settled } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { channel } from 'node:diagnostics_channel'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import * as mistakes from '../../test/support/guard-mistakes.ts'
import { openShop, type Shop } from '../../test/support/guard-shop.ts'
import { describePostgres } from '../../test/support/postgres.ts'
import { createEnclosingContext } from '../operation/enclosing.ts'
import type { Enclosing } from '../operation/enclosing.ts'
import { systemClock } from '../platform/clock.ts'
import type { Session } from '../store/store.ts'
import { createGuard } from './create-guard.ts'

const CHANNELS = ['undici:request:create', 'http.client.request.start']

describePostgres('outside calls', (database) => {
  const server = http.createServer((_request, response) => response.end('hello'))
  let url: string
  let host: string
  let shop: Shop
  beforeAll(async () => {
    server.listen(0, '127.0.0.1')
    await settled(server, 'listening')
    host = `127.0.0.1:${(server.address() as AddressInfo).port}`
    url = `http://${host}/charge`
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  afterEach(() => shop?.close())

  const open = async (options: Parameters<typeof openShop>[1] = {}): Promise<Shop> => {
    shop = await openShop(database.url, options)
    return shop
  }
  let keys = 0
  const operation = () => ({ scope: 'global', key: `key-${++keys}`, input: keys })

  it.each([
    ['fetch', mistakes.fetchFrom, ` (${mistakes.placeOf('await fetch')})`],
    // Node starts the request once it has a socket: the caller's frame is gone by then.
    ['http.request', mistakes.requestFrom, ''],
  ])('names the host of %s, once', async (_name, call, place) => {
    const { once, warnings, signals } = await open()
    for (let id = 0; id < 2; id++) {
      await once.run(operation(), async function charge({ tx }) {
        await tx.query('insert into charges values ($1)', [id])
        await call(url)
      })
    }
    const line = `charge called ${host}${place} inside its transaction. Add lease: '30s' and put the call in step()`
    expect(await warnings()).toEqual([{ code: 'ONCE_OUTSIDE_CALL', line }])
    expect(signals).toEqual([{ code: 'ONCE_OUTSIDE_CALL', line }])
  })

  it('fails the operation in mode throw, and its effect is rolled back', async () => {
    const { once, charges, warnings } = await open({ guard: 'throw' })
    const request = operation()
    const charge = (call: boolean) =>
      once.run(request, async ({ tx }) => {
        await tx.query('insert into charges values (1)')
        if (call) await mistakes.fetchFrom(url)
      })
    await expect(charge(true)).rejects.toMatchObject({ code: 'ONCE_OUTSIDE_CALL' })
    expect(await charges()).toEqual([])
    await charge(false)
    expect(await charges()).toEqual([1])
    expect(await warnings()).toEqual([])
  })

  it('becomes a warning when the handler fails by itself', async () => {
    const { once, warnings } = await open({ guard: 'throw' })
    const run = once.run(operation(), async () => {
      await mistakes.fetchFrom(url)
      throw new Error('declined')
    })
    await expect(run).rejects.toThrow('declined')
    expect(await warnings()).toMatchObject([{ code: 'ONCE_OUTSIDE_CALL' }])
  })

  it('leaves leased handlers, their steps, and everything after the end alone', async () => {
    const { once, warnings } = await open({ guard: 'throw' })
    await mistakes.fetchFrom(url)
    await once.run({ ...operation(), lease: '5s' }, async ({ step, commit }) => {
      await mistakes.requestFrom(url)
      await step('charge', () => mistakes.fetchFrom(url))
      return commit(({ tx }) => tx.query('insert into charges values (1)').then(() => 'done'))
    })
    let later: Promise<void> | undefined
    await once.run(operation(), async ({ tx }) => {
      await tx.query('insert into charges values (2)')
      later = new Promise((resolve) => setTimeout(resolve, 50)).then(() => mistakes.fetchFrom(url))
    })
    await later
    expect(await warnings()).toEqual([])
  })

  it('sees the final transaction of a leased operation, where the remedy is a step', async () => {
    const { once, warnings } = await open()
    await once.run({ ...operation(), lease: '5s' }, async function charge({ commit }) {
      return commit(async ({ tx }) => {
        await tx.query('insert into charges values (1)')
        await mistakes.fetchFrom(url)
      })
    })
    expect(await warnings()).toEqual([
      { code: 'ONCE_OUTSIDE_CALL', line: expect.stringMatching(/Move the call from commit\(\) into step\(\)$/) },
    ])
  })

  it('does not take the store for somebody outside', async () => {
    const enclosing = createEnclosingContext()
    const told: string[] = []
    const guard = createGuard({
      mode: 'warn',
      store: { name: 'far' },
      clock: systemClock,
      observe: (signal) => signal.kind === 'guard' && told.push(signal.code),
      enclosing,
      isStoreHost: (name) => name === host,
    })
    const session = {} as Session<unknown>
    const watched = guard.watch({ route: 'charge', claim: { id: 'a' } }, session)
    await enclosing.run({ id: 'a', route: 'charge', session } as Enclosing, async () => {
      await mistakes.fetchFrom(url)
      await mistakes.requestFrom(url)
      expect(told).toEqual([])
      await mistakes.fetchFrom(url.replace('127.0.0.1', 'localhost')).catch(() => {})
      expect(told).toEqual(['ONCE_OUTSIDE_CALL'])
    })
    watched.stop()
    guard.stop()
  })
})

it('listens only while a guard exists', () => {
  const listened = (): boolean[] => CHANNELS.map((name) => channel(name).hasSubscribers)
  expect(listened()).toEqual([false, false])
  const options = { store: { name: 'any' }, clock: systemClock, observe: () => {}, enclosing: createEnclosingContext() }
  const guards = [createGuard({ mode: 'warn', ...options }), createGuard({ mode: 'throw', ...options })]
  guards[0]?.stop()
  expect(listened()).toEqual([true, true])
  guards[1]?.stop()
  guards[1]?.stop()
  expect(listened()).toEqual([false, false])
})
