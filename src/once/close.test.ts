import { createServer, Agent, request as httpRequest } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import type { Signal } from '../observe/signal.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'
import { event } from '../outbox/event.ts'
import { effectivelyOnce } from './once.ts'

const events = { 'step.made': event<{ n: number }>(() => 'a') }

function make() {
  const signals: Signal[] = []
  const store = memoryStore()
  const observe = (signal: Signal): void => void signals.push(signal)
  return { signals, store, once: effectivelyOnce({ namespace: 'test', store, events, guard: 'off', observe }) }
}

const never = new Promise<never>(() => {})
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const operation = { scope: 'u', key: 'k', input: 1 }

async function timed<T>(work: Promise<T>): Promise<{ value: T; ms: number }> {
  const at = performance.now()
  const value = await work
  return { value, ms: performance.now() - at }
}

describe('close({ within })', () => {
  it('reports nothing where everything ended', async () => {
    const { once, signals } = make()
    await once.run(operation, async () => 1)
    expect(await once.close({ within: '1s' })).toEqual({ cutOff: [] })
    expect(signals.filter(({ kind }) => kind === 'closed')).toEqual([{ kind: 'closed', cutOff: [] }])
  })

  it('is the same close, however often it is called', async () => {
    const { once, signals } = make()
    const both = await Promise.all([once.close(), once.close({ within: '1s' })])
    expect(both[0]).toBe(both[1])
    expect(signals.filter(({ kind }) => kind === 'closed')).toHaveLength(1)
  })

  it('refuses a time that is none', async () => {
    const { once } = make()
    await expect(once.close({ within: 'soon' as '1s' })).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    await expect(once.close({ whithin: '1s' } as object)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    await once.close()
  })

  it.each<unknown>([null, 5, '1s'])('refuses %j, and closes nothing', async (options) => {
    const { once } = make()
    await expect(once.close(options as object)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    expect(await once.run(operation, async () => 1)).toBe(1)
    await once.close()
  })

  it.each(['closeIdleConnections', 'closeAllConnections'])('ends although %s of the server throws', async (method) => {
    const { once } = make()
    const fail = (): never => {
      throw new Error('not this server')
    }
    const server = { close: () => {}, [method]: fail }
    expect(await once.close({ within: '200ms', server })).toEqual({ cutOff: [{ kind: 'server', name: '', count: 1 }] })
    await expect(once.run(operation, async () => 1)).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
  })

  it('cuts off an atomic handler that hangs: its signal aborts, nothing is committed, and the caller is told', async () => {
    const { once, store } = make()
    let signal: AbortSignal | undefined
    const running = once.run(operation, async function slow(op) {
      signal = op.signal
      await never
    })
    running.catch(() => {})
    await pause(20)
    const { value, ms } = await timed(once.close({ within: '400ms' }))
    expect(ms).toBeLessThan(700)
    expect(value.cutOff).toEqual([{ kind: 'operation', name: 'slow', count: 1 }])
    expect(signal?.aborted).toBe(true)
    await expect(running).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    const again = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false })
    expect(await again.run(operation, async () => 'again')).toBe('again')
    await again.close()
  })

  it('cuts off a leased handler, and lets go of its lease', async () => {
    const { once, store } = make()
    const running = once.run({ ...operation, lease: '30s' }, async function slow() {
      return never
    })
    running.catch(() => {})
    await pause(20)
    expect((await once.close({ within: '400ms' })).cutOff).toEqual([{ kind: 'operation', name: 'slow', count: 1 }])
    await expect(running).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    const again = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false })
    const done = await again.run({ ...operation, lease: '30s' }, async ({ commit }) => commit(() => 'again'))
    expect(done).toBe('again')
    await again.close()
  })

  it('lets a leased operation that runs use others of the instance to its end', async () => {
    const { once } = make()
    let go = (): void => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const running = once.run({ ...operation, lease: '30s' }, async ({ commit }) => {
      await gate
      const inner = await once.run({ ...operation, key: 'inner' }, async () => 'inner')
      return commit(() => inner)
    })
    await pause(10)
    const closing = once.close({ within: '2s' })
    await expect(once.run({ ...operation, key: 'late' }, async () => 1)).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    go()
    expect(await running).toBe('inner')
    expect((await closing).cutOff).toEqual([])
  })

  it('cuts off a consumer whose handler hangs, counts no attempt, and gives the message back', async () => {
    const { once } = make()
    const broker = memoryBroker()
    broker.publish({ id: 'm1' })
    let runs = 0
    const consumer = once.consumer(
      'steps',
      { from: broker.source },
      {
        'step.made': async () => {
          runs++
          await never
        },
      },
    )
    await consumer.start()
    await vi.waitFor(() => expect(runs).toBe(1))
    const { value, ms } = await timed(once.close({ within: '600ms' }))
    expect(ms).toBeLessThan(900)
    expect(value.cutOff).toEqual([{ kind: 'consumer', name: 'steps', count: 1 }])
    expect(await once.deadLetters.list()).toEqual([])
  })

  it('cuts off a relay whose sink hangs', async () => {
    const { once } = make()
    let sent = 0
    await once.relay({ to: { ...inProcessSink(() => {}), name: 'stuck', send: () => (sent++, never) } }).start()
    await once.run(operation, async (op) => op.publish('step.made', { n: 1 }))
    await vi.waitFor(() => expect(sent).toBe(1))
    const { value, ms } = await timed(once.close({ within: '600ms' }))
    expect(ms).toBeLessThan(900)
    expect(value.cutOff).toEqual([{ kind: 'relay', name: 'stuck', count: 1 }])
  })

  it('stops relays after the operations, whose events they send meanwhile', async () => {
    const { once } = make()
    const seen: string[] = []
    await once.relay({ to: inProcessSink(() => void seen.push('sent')) }).start()
    const quick = once.run(operation, async (op) => pause(50).then(() => op.publish('step.made', { n: 1 })))
    const slow = once.run({ ...operation, key: 'slow' }, () => pause(300).then(() => void seen.push('ended')))
    await pause(10)
    await once.close({ within: '4s' })
    await Promise.all([quick, slow])
    expect(seen).toEqual(['sent', 'ended'])
  })

  it('starts nothing any more', async () => {
    const { once } = make()
    const consumer = once.consumer('steps', { from: memoryBroker().source }, { 'step.made': async () => {} })
    const relay = once.relay({ to: inProcessSink(() => {}) })
    await once.close()
    for (const worker of [consumer, relay]) {
      await expect(worker.start()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
      await expect(worker.drain()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    }
    await expect(once.sweep()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    await expect(once.recover({})).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
  })
})

describe('close({ server })', () => {
  async function serving() {
    const { once } = make()
    const agent = new Agent({ keepAlive: true })
    const server = createServer((req, res) => {
      const ms = Number(new URL(req.url ?? '', 'http://x').searchParams.get('ms'))
      void once
        .run({ scope: 'u', key: req.url ?? '', input: 1 }, () => pause(ms).then(() => 'done'))
        .then(
          (value) => res.end(value),
          (error: Error) => res.writeHead(503).end(error.message),
        )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const get = (path: string): Promise<{ status: number; connection: string | undefined }> =>
      new Promise((resolve, reject) => {
        httpRequest({ port, path, agent, host: '127.0.0.1' }, (res) => {
          res.resume().on('end', () => resolve({ status: res.statusCode ?? 0, connection: res.headers.connection }))
        })
          .on('error', reject)
          .end()
      })
    return { once, server, get, agent }
  }

  it('answers what came, closes kept-alive connections, and takes no more', async () => {
    const { once, server, get, agent } = await serving()
    await get('/?ms=0')
    const running = get('/?ms=200')
    await pause(50)
    const { value, ms } = await timed(once.close({ within: '5s', server }))
    expect(await running).toMatchObject({ status: 200 })
    expect(value.cutOff).toEqual([])
    expect(ms).toBeLessThan(1_500)
    await expect(get('/?ms=1')).rejects.toThrow(/ECONN|hang up/)
    agent.destroy()
  })

  it('serves what comes on a busy connection, and tells the client to leave it', async () => {
    const { once, server, get, agent } = await serving()
    const slow = get('/?ms=300')
    const kept = await get('/?ms=0')
    expect(kept.connection).toBe('keep-alive')
    const closing = once.close({ within: '5s', server })
    expect(await slow).toMatchObject({ status: 200 })
    expect((await closing).cutOff).toEqual([])
    agent.destroy()
  })

  it('ends what does not end in time', async () => {
    const { once, server, get, agent } = await serving()
    const stuck = get('/?ms=5000').catch((error: Error) => error)
    await pause(50)
    const { value, ms } = await timed(once.close({ within: '600ms', server }))
    expect(ms).toBeLessThan(1_000)
    expect(value.cutOff).toContainEqual({ kind: 'operation', name: 'run', count: 1 })
    await stuck
    agent.destroy()
  })

  it('ends a connection on which no operation runs, and names the server', async () => {
    const { once } = make()
    const server = createServer(() => {}) // never answers
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const cut = new Promise((resolve) => {
      httpRequest({ port, host: '127.0.0.1' }).on('error', resolve).end()
    })
    await pause(50)
    const { value, ms } = await timed(once.close({ within: '300ms', server }))
    expect(value.cutOff).toEqual([{ kind: 'server', name: '', count: 1 }])
    expect(ms).toBeLessThan(700)
    expect(await Promise.race([cut, pause(1_000)])).toMatchObject({ code: 'ECONNRESET' })
  })

  it('a server that never ends, and cannot end its connections, is named', async () => {
    const { once, signals } = make()
    const { cutOff } = await once.close({ within: '50ms', server: { close: () => {} } })
    expect(cutOff).toEqual([{ kind: 'server', name: '', count: 1 }])
    expect(signals.at(-1)).toEqual({ kind: 'closed', cutOff })
  })

  it('ends a connection that never carried a request, and counts it as nothing', async () => {
    const { once, server, agent } = await serving()
    const { port } = server.address() as AddressInfo
    const idle = connect(port, '127.0.0.1')
    const ended = new Promise((resolve) => idle.on('error', resolve).on('close', resolve))
    await new Promise((resolve) => idle.on('connect', resolve))
    await pause(50)
    const { value, ms } = await timed(once.close({ within: '20s', server }))
    await ended
    expect(value.cutOff).toEqual([])
    expect(ms).toBeLessThan(8_000)
    agent.destroy()
  })

  it('ends a connection that stays, before its time is over', async () => {
    const { once } = make()
    const server = createServer(() => {}) // never answers
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const cut = new Promise<number>((resolve) => {
      httpRequest({ port, host: '127.0.0.1' })
        .on('error', () => resolve(performance.now()))
        .end()
    })
    await new Promise((resolve) => server.once('request', resolve))
    const at = performance.now()
    await once.close({ within: '4s', server })
    expect((await cut) - at).toBeLessThan(4_000)
  })

  it('begins no background work while the server still answers', async () => {
    const { once, store } = make()
    const consumer = once.consumer('steps', { from: once.outbox }, { 'step.made': async () => {} })
    const relay = once.relay({ to: inProcessSink(() => {}) })
    const lapsed = vi.spyOn(store.leases, 'lapsed')
    let answered = (): void => {}
    const closing = once.close({
      within: '1s',
      server: { close: () => new Promise((end) => (answered = () => end(0))) },
    })
    expect(await once.ready()).toMatchObject({ ready: false })
    // Past half of the time, relays are stopped.
    for (const ms of [0, 600]) {
      await pause(ms)
      for (const worker of [consumer, relay]) {
        await expect(worker.start()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
        await expect(worker.drain()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
      }
      await expect(once.sweep()).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
      await expect(once.recover({})).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
    }
    expect(await once.run(operation, async () => 'served')).toBe('served')
    answered()
    expect(await closing).toEqual({ cutOff: [] })
    expect(lapsed).not.toHaveBeenCalled()
  })

  it('closes everything else where a server cannot be closed', async () => {
    const { once, signals } = make()
    const close = (): void => {
      throw new Error('not open')
    }
    expect(await once.close({ within: '1s', server: { close } })).toEqual({ cutOff: [] })
    expect(signals.at(-1)).toMatchObject({ kind: 'closed' })
  })
})
