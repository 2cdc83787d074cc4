import { expect, it } from 'vitest'
import type { Signal } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClient } from '../support/stores.ts'

describeAll('the end of a leased operation', (place) => {
  it('waits for a call that is under way before the lease is released', async () => {
    const wires: string[] = []
    let reconciled = 0
    const run = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'wire', input: 1, lease: '5s' }, async ({ step, commit, attempt }) => {
        await Promise.all([
          step(
            'wire',
            async () => {
              await later(150)
              wires.push(`attempt ${attempt}`)
              return 'wired'
            },
            {
              keyed: false,
              reconcile: async () => {
                reconciled++
                return 'rerun'
              },
            },
          ),
          step('mail', async () => {
            if (attempt === 1) throw new TypeError('no mail today')
            return 'mailed'
          }),
        ])
        return commit(({ tx }) => insertCharge(place, tx, 'wire'))
      })
    expect(await outcomeOf(run())).toBe('TypeError')
    await run()
    expect(wires).toEqual(['attempt 1'])
    expect(reconciled).toBe(0)
    expect(await countCharges(place, 'wire')).toBe(1)
  })

  it('a commit waits for steps that nobody awaited', async () => {
    const done: string[] = []
    await place.once().run({ scope: 'u', key: 'unawaited step', input: 1, lease: '5s' }, async ({ step, commit }) => {
      void step('slow', async () => {
        await later(50)
        done.push('slow')
      })
      return commit(async ({ tx }) => {
        done.push('commit')
        return insertCharge(place, tx, 'unawaited step')
      })
    })
    expect(done).toEqual(['slow', 'commit'])
  })

  it('lets the lease go, though a branch that was left behind begins a step in that moment', async () => {
    const once = place.once()
    const answers: string[] = []
    const late = new Set<string>()
    for (let turns = 0; turns < 40; turns++) {
      const request = { scope: 'u', key: `left behind ${turns}`, input: 1, lease: '30s' } as const
      const failing = once.run(request, async ({ step }) => {
        const branch = async (): Promise<void> => {
          for (let i = 0; i < turns; i++) await Promise.resolve()
          await step('late', async () => 'called')
        }
        void outcomeOf(branch()).then((told) => late.add(told))
        throw new TypeError('gives up')
      })
      expect(await outcomeOf(failing)).toBe('TypeError')
      answers.push(await outcomeOf(once.run(request, ({ commit }) => commit(() => 'done'))))
    }
    expect(new Set(answers)).toEqual(new Set(['value']))
    expect([...late]).toContain('ONCE_TX_CLOSED')
  })

  it('comes within endsWithin, though the handler hangs: signal aborts, the caller is answered, the lease is let go', async () => {
    const once = place.once()
    let aborted: unknown
    let late: Promise<string> | undefined
    const startedAt = Date.now()
    const hangs = once.run(
      { scope: 'u', key: 'hangs', input: 1, lease: '3s', endsWithin: '600ms', deadline: '500ms' },
      async ({ signal, step, commit }) => {
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            aborted = signal.reason
            resolve()
          })
        })
        late = Promise.all([
          outcomeOf(step('too late', async () => 1)),
          outcomeOf(commit(({ tx }) => insertCharge(place, tx, 'hangs'))),
        ]).then((told) => told.join(' '))
        await late
        return commit(() => 1)
      },
    )
    expect(await outcomeOf(hangs)).toBe('ONCE_DEADLINE')
    expect(Date.now() - startedAt).toBeLessThan(8_000)
    expect(aborted).toMatchObject({ code: 'ONCE_DEADLINE' })
    expect(await late).toBe('ONCE_DEADLINE ONCE_DEADLINE')
    const again = await place
      .once()
      .run({ scope: 'u', key: 'hangs', input: 1, lease: '300ms', inFlight: { waitFor: '5s' } }, ({ commit }) =>
        commit(async ({ tx }) => (await insertCharge(place, tx, 'hangs')).key),
      )
    expect(again).toBe('hangs')
    expect(await countCharges(place, 'hangs')).toBe(1)
  })

  it('ends a commit that waits for a step without an end', async () => {
    let waiting: Promise<string> | undefined
    const run = place
      .once()
      .run(
        { scope: 'u', key: 'endless step', input: 1, lease: '300ms', endsWithin: '200ms' },
        async ({ step, commit }) => {
          void step('endless', () => new Promise(() => {}))
          const committing = commit(({ tx }) => insertCharge(place, tx, 'endless step'))
          waiting = outcomeOf(committing)
          return committing
        },
      )
    expect(await outcomeOf(run)).toBe('ONCE_DEADLINE')
    expect(await Promise.race([waiting, later(1_000).then(() => 'pending')])).toBe('ONCE_DEADLINE')
    expect(await countCharges(place, 'endless step')).toBe(0)
  })

  it('is the commit, whatever the handler does after it or does not await', async () => {
    const once = place.once()
    const lingers = once.run(
      { scope: 'u', key: 'lingers', input: 1, lease: '5s', endsWithin: '400ms' },
      async ({ commit }) => {
        const done = await commit(async ({ tx }) => (await insertCharge(place, tx, 'lingers')).key)
        await later(1_500)
        return done
      },
    )
    expect(await lingers).toBe('lingers')
    const hasty = once.run({ scope: 'u', key: 'hasty', input: 1, lease: '5s' }, async ({ commit }) => {
      void commit(async ({ tx }) => (await insertCharge(place, tx, 'hasty')).key)
      return undefined as never
    })
    expect(await hasty).toBe('hasty')
  })

  it.each([
    { what: 'a lease that lapsed before the start was answered', claim: 0, startStep: 900, lease: '300ms' as const },
    { what: 'a lease that is counted from its claim', claim: 800, startStep: 600, lease: '1s' as const },
  ])('begins no call under $what', async ({ what, lease: short, ...slowness }) => {
    const { leases } = place.bed.store
    const slow = new Proxy(leases, {
      get(target, name): unknown {
        if (name === 'heartbeat') return () => new Promise(() => {})
        const call = (Reflect.get(target, name) as (params: unknown) => Promise<unknown>).bind(target)
        if (name !== 'startStep' && name !== 'claim') return call
        return async (params: unknown) => {
          const answer = await call(params)
          await later(slowness[name])
          return answer
        }
      },
    })
    const store = new Proxy(place.bed.store, {
      get: (target, name): unknown => (name === 'leases' ? slow : Reflect.get(target, name)),
    })
    const calls: string[] = []
    const run = (once: ReturnType<typeof place.once>, who: string, lease: typeof short | '9s'): Promise<unknown> =>
      once.run({ scope: 'u', key: what, input: 1, lease, inFlight: { waitFor: '5s' } }, async ({ step, commit }) => {
        await step('wire', async () => calls.push(who), { keyed: false, reconcile: async () => 'rerun' })
        return commit(() => who)
      })
    const late = outcomeOf(run(place.once({ store }), 'late', short))
    await later(slowness.claim + 300)
    expect(await run(place.once(), 'next', '9s')).toBe('next')
    expect(await late).toBe('ONCE_LEASE_LOST')
    expect(calls).toEqual(['next'])
  })

  it('close() tells a handler that it cuts off', async () => {
    const once = place.once({ deadline: '200ms' })
    // Another instance of the store, which stays open with it.
    place.once()
    let told: unknown
    const run = once.run({ scope: 'u', key: 'outlives close', input: 1, lease: '5s' }, async ({ signal, commit }) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      told = signal.reason
      return commit(() => 1)
    })
    run.catch(() => {})
    await later(50)
    const { cutOff } = await once.close({ within: '400ms' })
    await later(50)
    expect(told).toMatchObject({ code: 'ONCE_CLOSED' })
    expect(cutOff).toEqual([{ kind: 'operation', name: 'run', count: 1 }])
  })

  it('step.tx has a deadline in the process, too', async () => {
    const once = place.once()
    const startedAt = Date.now()
    const hangs = once.run(
      { scope: 'u', key: 'hanging step', input: 1, lease: '5s', deadline: '300ms' },
      async ({ step, commit }) => {
        await step.tx('hang', () => new Promise<never>(() => {}))
        return commit(() => 1)
      },
    )
    expect(await outcomeOf(hangs)).toBe('ONCE_DEADLINE')
    expect(Date.now() - startedAt).toBeLessThan(5_000)
  })

  it('a run inside step.tx shares its transaction', async () => {
    const once = place.once()
    const inner = (): Promise<unknown> =>
      once.run({ scope: 'u', key: 'in a step', input: 1 }, async (op) => {
        await insertCharge(place, op.tx, 'in a step')
        return 'done'
      })
    const attempt = (fail: boolean): Promise<unknown> =>
      once.run({ scope: 'u', key: 'steps', input: 1, lease: '5s', deadline: '3s' }, async ({ step, commit }) => {
        await step.tx('nest', async ({ tx }) => {
          await insertCharge(place, tx, 'step')
          await inner()
          if (fail) throw new TypeError('the step broke')
        })
        return commit(() => 'done')
      })
    expect(await outcomeOf(attempt(true))).toBe('TypeError')
    expect([await countCharges(place, 'step'), await countCharges(place, 'in a step')]).toEqual([0, 0])
    await attempt(false)
    await inner()
    expect([await countCharges(place, 'step'), await countCharges(place, 'in a step')]).toEqual([1, 1])
  })

  it('recover runs an operation as its caller would', async () => {
    const input = { amount: 5, at: 'now', made: new Date(0) }
    const options = { scope: 'u', key: 'abandoned', input, ignore: ['/at'], replayFor: '2h', deadline: '7s' } as const
    const lost = place.once().run({ ...options, lease: '100ms', recover: 'charge' }, async () => {
      throw new TypeError('the process went away')
    })
    expect(await outcomeOf(lost)).toBe('TypeError')
    const signals: Signal[] = []
    const once = place.once({ observe: (signal) => void signals.push(signal) })
    await later(150)
    const recovered = await once.recover({
      charge: (op, { amount }: { amount: number }) =>
        op.commit(({ tx }) => insertCharge(place, tx, `abandoned ${amount}`)),
    })
    expect(signals.filter(({ kind }) => kind === 'troubled')).toEqual([])
    expect(recovered).toEqual({ finished: 1, left: 0 })
    expect(await countCharges(place, 'abandoned 5')).toBe(1)
    const retry = place
      .once()
      .run({ ...options, input: { ...input, at: 'later' }, lease: '100ms' }, async ({ commit }) =>
        commit(() => 'ran twice'),
      )
    expect(await retry).toMatchObject({ key: 'abandoned 5' })
  })
})

describeClient('a heartbeat that gets no answer', 'pg', (place) => {
  it('aborts the signal when the lease has lapsed, and does not hang the caller', async () => {
    const once = place.once()
    let stopped: number | undefined
    const startedAt = Date.now()
    try {
      const run = once.run(
        { scope: 'u', key: 'hung heartbeat', input: 1, lease: '900ms', endsWithin: '60s' },
        async ({ signal, commit }) => {
          // The first beat comes after a third of the lease; on a busy machine a little later.
          await later(350)
          for (let tries = 0; !stopped && tries < 20; tries++) {
            await later(50)
            const [row] = await place.bed.admin(
              `select pid from pg_stat_activity where datname = current_database() and state = 'idle'
                 and query ilike '%lease_until%' and query ilike '%update%' order by query_start desc limit 1`,
            )
            if (row) stopped = Number(row['pid'])
          }
          if (!stopped) throw new Error('no heartbeat was seen')
          process.kill(stopped, 'SIGSTOP')
          if (!signal.aborted) {
            await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
          }
          if (signal.aborted) throw signal.reason as Error
          return commit(() => 1)
        },
      )
      expect(await outcomeOf(run)).toBe('ONCE_LEASE_LOST')
      expect(Date.now() - startedAt).toBeLessThan(10_000)
    } finally {
      if (stopped) process.kill(stopped, 'SIGCONT')
    }
  })
})
