import { expect } from 'vitest'
import { effectivelyOnce, final } from '../../src/index.ts'
import { instanceOf } from '../../src/once/instance.ts'
import type { Inbox } from '../../src/store/inbox.ts'
import type { Redrives } from '../../src/store/redrives.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { until } from '../consumer/world.ts'
import { letterLine } from './letters.ts'
import { BY, CONSUMER, type RedriveWorld, type SomeTx } from './world.ts'

/** What a redrive promises, on any store. */
export const CASES: Readonly<Record<string, (world: RedriveWorld) => Promise<void>>> = {
  async 'runs parked letters again under their own ids, once, beside a redelivery'(world) {
    const messages = Array.from({ length: 40 }, (_, n) => ({ id: `m${n}`, aggregate: `a${n % 7}`, data: { n } }))
    await world.park(...messages)
    expect((await world.once.deadLetters.count()).total).toBe(40)
    expect((await world.applied()).size).toBe(0)
    const plan = await world.once.redrive.plan({ consumer: CONSUMER })
    expect(plan).toMatchObject({ consumer: CONSUMER, matching: 40, behind: 0, applied: 0, older: 0, reordered: 0 })
    expect(plan.refusals).toEqual([])
    // The broker delivers the very same ids again, before, while and after they are redriven.
    world.broker.publish(...messages)
    const consumer = await world.consumer().start()
    const { id } = await world.once.redrive.run({ consumer: CONSUMER }, { ...BY, rate: 10_000 })
    world.broker.publish(...messages)
    expect(await world.ended(id)).toMatchObject({ state: 'done', letters: 40, applied: 40, failed: 0, left: 0 })
    world.broker.publish(...messages)
    await consumer.drain()
    await consumer.stop()
    const applied = await world.applied()
    expect(applied.size).toBe(40)
    expect([...applied.values()].filter((n) => n !== 1)).toEqual([])
    expect((await world.once.deadLetters.count()).total).toBe(0)
    expect((await world.once.deadLetters.count({ state: 'redriven' })).total).toBe(40)
    expect((await world.once.redrive.audit({ redrive: id })).map(({ action, by, why }) => [action, by, why])).toEqual([
      ['done', 'effectively-once', 'every letter was tried'],
      ['canary', 'effectively-once', 'the canary was applied'],
      ['run', 'ada', 'the printer works again'],
    ])
  },

  async 'takes the letters parked behind along, in order; a failure blocks only its aggregate'(world) {
    const of = (aggregate: string) => [1, 2, 3].map((n) => ({ id: `${aggregate}${n}`, aggregate }))
    world.fails = (id) => (id.endsWith('1') ? new Error('heads fail') : null)
    world.broker.publish(...of('x'), ...of('y'), ...of('z'))
    await world.consumer().drain()
    const heads = (await world.once.deadLetters.list()).filter(({ reason }) => reason === 'failed')
    expect(heads.map(({ message }) => message).toSorted()).toEqual(['x1', 'y1', 'z1'])
    const fingerprint = heads[0]?.fingerprint as string
    const plan = await world.once.redrive.plan({ fingerprint })
    expect(plan).toMatchObject({ matching: 3, behind: 6, reordered: 0, refusals: [] })
    world.fails = (id) => (id === 'y1' ? new Error('still burning') : null)
    const consumer = await world.consumer().start()
    const { id } = await world.once.redrive.run({ fingerprint }, { ...BY, rate: 10_000, canary: 0, pauseAt: 1 })
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 6, failed: 1, blocked: 2 })
    const order = [...(await world.applied()).keys()]
    expect(order.filter((message) => message.startsWith('x'))).toEqual(['x1', 'x2', 'x3'])
    expect(order.filter((message) => message.startsWith('y'))).toEqual([])
    const left = await world.once.deadLetters.list()
    expect(left.map(({ message }) => message)).toEqual(['y1', 'y2', 'y3'])
    expect(left[0]).toMatchObject({ attempts: 2, error: 'Error: still burning', state: 'parked', reason: 'failed' })
    expect(left[0]?.timeline).toHaveLength(2)
    // Fixed: a second redrive of what is left.
    world.fails = () => null
    const again = await world.once.redrive.run({ consumer: CONSUMER }, { ...BY, rate: 10_000 })
    expect(await world.ended(again.id)).toMatchObject({ state: 'done', applied: 3 })
    await consumer.stop()
    expect([...(await world.applied()).keys()].filter((m) => m.startsWith('y'))).toEqual(['y1', 'y2', 'y3'])
  },

  async 'takes along what is parked behind its letters while it runs, and the aggregate is free afterwards'(world) {
    const step = (n: number) => ({ id: `x${n}`, aggregate: 'x' })
    world.fails = (id) => (id === 'x1' ? new Error('no') : null)
    world.broker.publish(step(1), step(2))
    const consumer = await world.consumer().start()
    const parked = async (): Promise<number> => (await world.once.deadLetters.count()).total
    await until(async () => (await parked()) === 2)
    world.fails = () => null
    const canary = { letters: 1, after: 'pause' } as const
    const { id } = await world.once.redrive.run({ consumer: CONSUMER }, { ...BY, rate: 10_000, canary })
    expect(await world.ended(id)).toMatchObject({ state: 'paused', applied: 1 })
    world.broker.publish(step(3))
    await until(async () => (await parked()) === 2)
    await world.once.redrive.resume(id, BY)
    expect(await world.ended(id)).toMatchObject({ state: 'done', letters: 3, applied: 3, left: 0 })
    world.broker.publish(step(4))
    await until(async () => (await world.applied()).size === 4)
    await consumer.stop()
    expect([...(await world.applied()).keys()]).toEqual(['x1', 'x2', 'x3', 'x4'])
    expect(await parked()).toBe(0)
  },

  async 'takes along what a consumer is parking behind its last letter when it ends'(world) {
    const step = (n: number) => ({ id: `x${n}`, aggregate: 'x' })
    world.fails = () => new Error('no')
    world.broker.publish(step(1))
    const consumer = await world.consumer().start()
    const parked = async (): Promise<number> => (await world.once.deadLetters.count()).total
    await until(async () => (await parked()) === 1)
    world.fails = () => null
    const { inbox, redrives } = world.store as { inbox: Inbox<SomeTx>; redrives: Redrives<SomeTx> }
    const { park } = inbox
    const { extend } = redrives
    const now = { parking: false, ending: false }
    inbox.park = async (params) => {
      now.parking = true
      await until(() => now.ending)
      return park.call(inbox, params)
    }
    redrives.extend = async (params) => {
      const letters = await extend.call(redrives, params)
      now.ending = true
      return letters
    }
    world.broker.publish(step(2))
    await until(() => now.parking)
    const { id } = await world.once.redrive.run({ consumer: CONSUMER }, { ...BY, rate: 10_000 })
    expect(await world.ended(id)).toMatchObject({ state: 'done', letters: 2, applied: 2, left: 0 })
    world.broker.publish(step(3))
    await until(async () => (await world.applied()).size === 3)
    await consumer.stop()
    expect(await parked()).toBe(0)
  },

  async 'refuses what would overtake, several consumers, nothing, and a second one; unless asked to'(world) {
    world.fails = (id) => (id === 'a1' ? new Error('no') : null)
    world.broker.publish({ id: 'a1', aggregate: 'a' }, { id: 'a2', aggregate: 'a' })
    await world.consumer().drain()
    const { redrive } = world.once
    const second = (await world.once.deadLetters.list()).find(({ message }) => message === 'a2')
    const filter = { ids: [second?.id as string] }
    expect(await redrive.plan(filter)).toMatchObject({ matching: 1, reordered: 1 })
    await expect(redrive.run(filter, BY)).rejects.toThrow(
      /ONCE_REDRIVE_REFUSED .*1 letters of 1 aggregates would overtake/,
    )
    await expect(redrive.run({ type: 'nothing' }, BY)).rejects.toThrow('no parked letter matches')
    expect(await redrive.list()).toEqual([])
    const first = await redrive.run(filter, { ...BY, reorder: true })
    await expect(redrive.run({}, BY)).rejects.toThrow(`redrive ${first.id} of 'receipts' has not ended`)
    await redrive.abort(first.id, BY)
    await expect(redrive.pause(first.id, BY)).rejects.toThrow(/ONCE_REDRIVE_UNKNOWN .*is aborted/)
    await expect(redrive.resume(4_711, BY)).rejects.toThrow('there is no redrive 4711')
    await expect(redrive.run(filter, { by: 'ada', why: ' ' })).rejects.toThrow('why must say the reason')
    await expect(redrive.run(filter, { ...BY, rate: 0 })).rejects.toThrow('rate')
    await expect(redrive.run(filter, { ...BY, cannary: 1 } as never)).rejects.toThrow("unknown option 'cannary'")
    await expect(redrive.run({ ids: ['x'] }, BY)).rejects.toThrow('ids')
    expect((await world.once.deadLetters.count()).total).toBe(2)
  },

  async 'a resume that comes before the pause was noticed runs what failed again'(world) {
    await world.park({ id: 'm0' }, { id: 'm1' })
    const { redrive } = world.once
    const [first] = (await world.once.deadLetters.list()).map(({ message }) => message)
    world.fails = (message) => (message === first ? new Error('still burning') : null)
    const { id } = await redrive.run({}, { ...BY, canary: 0, pauseAt: 1, rate: 2 })
    const consumer = await world.consumer().start()
    await until(async () => (await redrive.list())[0]?.failed === 1)
    world.fails = () => null
    await redrive.pause(id, BY)
    await redrive.resume(id, BY)
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 2, failed: 0, left: 0 })
    await consumer.stop()
  },

  async 'pauses when the canary fails, when too much fails, and when it is told; and goes on'(world) {
    await world.park(...Array.from({ length: 60 }, (_, n) => ({ id: `m${n}` })))
    const order = (await world.once.deadLetters.list()).map(({ message }) => message)
    const { redrive } = world.once
    world.fails = (message) => (order.indexOf(message) === 3 ? new Error('canary') : null)
    const { id } = await redrive.run({}, { ...BY, canary: 5, rate: 10_000 })
    const consumer = await world.consumer().start()
    const paused = await world.ended(id)
    expect(paused).toMatchObject({ state: 'paused', reason: '1 of the first 5 failed', failed: 1 })
    expect(paused.applied).toBeLessThan(5)
    // Fixed: the failed one is tried again, and the canary begins anew. Then every other one fails.
    world.fails = (message) => (order.indexOf(message) > 10 && order.indexOf(message) % 2 ? new Error('odd') : null)
    expect(await redrive.resume(id, BY)).toMatchObject({ state: 'running', failed: 0 })
    const again = await world.ended(id)
    expect(again).toMatchObject({ state: 'paused', reason: expect.stringMatching(/^\d+ of the last \d+ failed$/) })
    expect(again.left).toBeGreaterThan(5)
    world.fails = () => null
    await redrive.resume(id, { ...BY, rate: 20 })
    expect(await redrive.pause(id, { by: 'bob', why: 'lunch' })).toMatchObject({ state: 'paused', reason: 'lunch' })
    await redrive.resume(id, { ...BY, rate: 10_000 })
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 60, failed: 0, left: 0 })
    await consumer.stop()
    expect([...(await world.applied()).values()].every((n) => n === 1)).toBe(true)
    const audit = (await redrive.audit({ redrive: id })).map(({ action, by }) => `${action} ${by}`).toReversed()
    expect(audit).toEqual([
      'run ada',
      'pause effectively-once',
      'resume ada',
      'canary effectively-once',
      'pause effectively-once',
      'resume ada',
      'pause bob',
      'resume ada',
      'done effectively-once',
    ])
  },

  async 'stops after the canary when asked to, keeps its rate, and aborts'(world) {
    await world.park(...Array.from({ length: 30 }, (_, n) => ({ id: `m${n}` })))
    const consumer = await world.consumer().start()
    const { redrive } = world.once
    const { id } = await redrive.run({}, { ...BY, canary: { letters: 3, after: 'pause' }, rate: 10_000 })
    expect(await world.ended(id)).toMatchObject({ state: 'paused', applied: 3, left: 27 })
    const at = performance.now()
    await redrive.resume(id, { ...BY, rate: 10 })
    while (((await redrive.status(id))?.applied ?? 0) < 15) await new Promise((resolve) => setTimeout(resolve, 20))
    // A second's worth may be saved up, and no more.
    expect(performance.now() - at).toBeGreaterThan(900)
    const aborted = await redrive.abort(id, { by: 'bob', why: 'enough' })
    expect(aborted).toMatchObject({ state: 'aborted', reason: 'enough' })
    expect(aborted.left).toBeGreaterThan(5)
    await consumer.stop()
    const { left, applied } = (await redrive.status(id)) as { left: number; applied: number }
    expect((await world.once.deadLetters.count()).total).toBe(left)
    expect((await world.applied()).size).toBe(applied)
  },

  async 'settles what was applied before without running it; what is discarded meanwhile is left alone'(world) {
    await world.park({ id: 'one' }, { id: 'two' }, { id: 'three' })
    const letters = await world.once.deadLetters.list()
    // As if a backup of the letters had come back: 'one' is applied, and parked all the same.
    const one = letters.find(({ message }) => message === 'one')
    const item = { id: one?.id as string, lock: '1', source: 'memory', message: 'one', aggregate: null, previous: null }
    const taken = await world.store.inbox?.take({ consumer: CONSUMER, items: [item], deadlineMs: 5_000, redrive: true })
    if (taken) await world.write(taken.session.session.tx, 'one')
    await taken?.session.complete({ consumer: CONSUMER, events: [], tried: [], positions: null })
    expect(await world.once.redrive.plan({})).toMatchObject({ matching: 3, applied: 1 })
    const { id } = await world.once.redrive.run({}, BY)
    const two = letters.find(({ message }) => message === 'two')?.id as string
    expect(await world.once.redrive.discard({ ids: [two] }, { by: 'bob', why: 'a test order' })).toBe(1)
    const consumer = await world.consumer().start()
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 1, already: 1, gone: 1 })
    await consumer.stop()
    expect(await world.applied()).toEqual(new Map([['one', 1], ['three', 1]])) // prettier-ignore
    expect((await world.once.redrive.audit())[1]).toMatchObject({ action: 'discard', by: 'bob', why: 'a test order' })
  },

  async 'discards only for whoever gives a name and a reason, and the audit keeps both'(world) {
    await world.park({ id: 'one' }, { id: 'two' }, { id: 'three' })
    const { deadLetters, redrive } = world.once
    for (const nobody of [undefined, {}, { by: 'bob' }, { by: ' ', why: 'x' }, { by: 'bob', why: '' }] as never[])
      await expect(deadLetters.discard({}, nobody)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    await expect(deadLetters.discard({}, { ...BY, limit: 0 })).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    await expect(deadLetters.discard({ no: 1 } as never, BY)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    expect(await redrive.audit()).toEqual([])
    expect((await deadLetters.count()).total).toBe(3)
    expect(await deadLetters.discard({ consumer: CONSUMER }, { by: 'bob', why: 'test orders', limit: 2 })).toBe(2)
    expect(await redrive.audit()).toMatchObject([
      {
        by: 'bob',
        why: 'test orders',
        action: 'discard',
        redrive: null,
        detail: { filter: { consumer: CONSUMER }, limit: 2 },
      },
    ])
    expect((await deadLetters.count()).total).toBe(1)
    expect((await deadLetters.count({ state: 'discarded' })).total).toBe(2)
  },

  async 'refuses letters older than the inbox remembers, unless forced'(world) {
    await world.park({ id: 'old' })
    await world.forget()
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(await world.once.redrive.plan({})).toMatchObject({ matching: 1, older: 1 })
    await expect(world.once.redrive.run({}, BY)).rejects.toThrow("1 letters are older than 'receipts' remembers")
    const { id } = await world.once.redrive.run({}, { ...BY, force: true })
    await world.consumer().drain()
    expect(await world.once.redrive.status(id)).toMatchObject({ state: 'done', applied: 1 })
  },

  async 'changes events by a transform, shows the difference, and keeps what came'(world) {
    world.fails = (_, data) => (data.broken ? new Error('broken data') : null)
    world.broker.publish({ id: 'a', data: { broken: true, note: 'x' } }, { id: 'b', data: { broken: true, note: 'y' } })
    await world.consumer().drain()
    const { redrive } = world.once
    const mend = (event: { data: { broken?: boolean; note: string } }) => ({
      ...event,
      data: { note: `${event.data.note}!` },
    })
    const plan = await redrive.plan({}, { transform: mend, reveal: true })
    expect(plan.transform).toMatchObject({ changed: 2, unchanged: 0, failed: 0 })
    expect(plan.transform?.samples[0]?.changes).toEqual([
      { pointer: '/data/broken', kind: 'removed', from: true },
      { pointer: '/data/note', kind: 'changed', from: 'x', to: 'x!' },
    ])
    expect((await redrive.plan({}, { transform: mend })).transform?.samples[0]?.changes).toEqual([
      { pointer: '/data/broken', kind: 'removed' },
      { pointer: '/data/note', kind: 'changed' },
    ])
    await expect(redrive.run({}, { ...BY, transform: (event) => ({ ...event, id: 'new' }) })).rejects.toThrow(
      /the transform fails for 2 letters: .*changed the id/,
    )
    const { id } = await redrive.run({}, { ...BY, transform: mend })
    await world.consumer().drain()
    expect(await redrive.status(id)).toMatchObject({ state: 'done', applied: 2 })
    expect((await world.written()).toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      { id: 'a', note: 'x!' },
      { id: 'b', note: 'y!' },
    ])
    const [letter] = await world.once.deadLetters.list({ state: 'redriven' })
    expect(letter?.message).toBe('a')
    expect(JSON.parse(letter?.body ?? '')).toMatchObject({ id: 'a', data: { broken: true, note: 'x' } })
  },

  async 'keeps a chain of ordered events in order, however it was parked; a missing link stays parked'(world) {
    await world.consumer().drain()
    // 3 follows 2 follows 1 follows 0; 8 follows 7, which nobody ever saw.
    const lines = [letterLine(3, 2), letterLine(2, 1), letterLine(1, 0), letterLine(0), letterLine(8, 7)]
    expect(await world.once.deadLetters.import(lines, BY)).toMatchObject({ imported: 5 })
    const { id } = await world.once.redrive.run({}, { ...BY, rate: 10_000, canary: 0 })
    const consumer = await world.consumer().start()
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 4, blocked: 1, failed: 0 })
    await consumer.stop()
    expect([...(await world.applied()).keys()]).toEqual(['m0', 'm1', 'm2', 'm3'])
    expect((await world.once.deadLetters.list()).map(({ message }) => message)).toEqual(['m8'])
  },

  async 'a holder that was taken over writes nothing; what ends its process again and again stays parked'(world) {
    await world.park({ id: 'one' }, { id: 'two' })
    const { redrives, inbox } = world.store
    if (!redrives || !inbox) throw new Error('no redrives')
    const { id } = await world.once.redrive.run({}, { ...BY, canary: 0 })
    const old = await redrives.claim({ consumer: CONSUMER, leaseMs: 30 })
    if (!old) throw new Error('nothing to claim')
    expect(await redrives.claim({ consumer: CONSUMER, leaseMs: 60_000 })).toBeNull()
    await new Promise((resolve) => setTimeout(resolve, 60))
    const taken = await redrives.claim({ consumer: CONSUMER, leaseMs: 300 })
    expect(Number(taken?.token)).toBeGreaterThan(Number(old.token))
    const items = await redrives.items({ redrive: id, outcomes: ['pending'], after: 0, limit: 10 })
    expect(items.map(({ ord }) => ord)).toEqual([1, 2])
    expect(await redrives.beat({ ...old, leaseMs: 100, starting: [1], ended: [] })).toBeNull()
    expect(await redrives.decide({ ...old, decisions: [{ ord: 1, outcome: 'already' }] })).toBe(false)
    const { session } = await inbox.take({ consumer: CONSUMER, items: [], deadlineMs: 5_000, redrive: true })
    expect(await redrives.settle(session.session, { ...old, ords: [1] })).toBe(false)
    expect(await redrives.settle(session.session, { ...(taken as typeof old), ords: [1] })).toBe(true)
    await session.rollback()
    for (let start = 0; start < 3; start++) {
      expect(await redrives.beat({ ...(taken as typeof old), leaseMs: 50, starting: [2], ended: [] })).not.toBeNull()
    }
    await new Promise((resolve) => setTimeout(resolve, 60))
    const consumer = await world.consumer().start()
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 1, failed: 1 })
    await consumer.stop()
    expect((await world.applied()).size).toBe(1)
    expect(await world.once.deadLetters.list()).toMatchObject([{ reason: 'crashed', state: 'parked' }])
  },

  async 'a leased consumer keeps a chain of ordered events in order too'(world) {
    const leased = world.once.consumer(
      CONSUMER,
      { from: world.broker.source, lease: '5s' },
      { 'step.made': async (event, { commit }) => commit(({ tx }) => world.write(tx, event.id)) },
    )
    await leased.drain()
    await world.once.deadLetters.import([letterLine(2, 1), letterLine(1, 0), letterLine(0)], BY)
    // The canary is the last of the chain, and the others are not in hand: it waits, and nothing overtakes.
    await world.once.redrive.run({}, { ...BY, rate: 10_000, canary: 1 })
    await leased.drain()
    expect(await world.applied()).toEqual(new Map())
    await world.once.redrive.run({}, { ...BY, rate: 10_000, canary: 0 })
    await leased.drain()
    expect([...(await world.applied()).keys()]).toEqual(['m0', 'm1', 'm2'])
  },

  async 'a leased letter that waited for longer than answers are kept runs again, after its steps'(world) {
    const { store, broker } = world
    const once = effectivelyOnce({
      namespace: 'redrive',
      store,
      guard: 'off',
      sweep: false,
      replayFor: '1s',
      goneFor: '0s',
    })
    const calls: string[] = []
    let broken = true
    const mail = once.consumer(
      'mail',
      { from: broker.source, lease: '1s', attempts: 1 },
      {
        'step.made': async (event, { step, commit }) => {
          await step('send', async () => void calls.push(event.id))
          return commit(async ({ tx }) => {
            await world.write(tx, event.id)
            if (broken) throw new Error('the mailbox is full')
          })
        },
      },
    )
    broker.publish({ id: 'l1' })
    await mail.drain()
    broken = false
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    await once.sweep()
    const { id } = await once.redrive.run({ consumer: 'mail' }, BY)
    await mail.drain()
    expect(await once.redrive.status(id)).toMatchObject({ state: 'done', applied: 1 })
    expect(calls).toEqual(['l1'])
  },

  async 'a handler that refuses finally leaves its letter parked as refused, tried once'(world) {
    await world.park({ id: 'm1', aggregate: 'a' }, { id: 'm2', aggregate: 'a' }, { id: 'm3', aggregate: 'b' })
    const why = { no: 'such order' }
    world.fails = (id) => (id === 'm1' ? final({ status: 404, body: why }) : null)
    const consumer = await world.consumer({ attempts: 5 }).start()
    const { id } = await world.once.redrive.run({}, { ...BY, rate: 10_000, canary: 0, pauseAt: 1 })
    expect(await world.ended(id)).toMatchObject({ state: 'done', applied: 1, failed: 1, blocked: 1 })
    await consumer.stop()
    const [refused, behind] = await world.once.deadLetters.list()
    expect(refused).toMatchObject({ message: 'm1', state: 'parked', reason: 'refused', attempts: 2 })
    expect(refused?.error).toContain('refused with status 404')
    expect(behind).toMatchObject({ message: 'm2', state: 'parked', reason: 'behind' })
    expect([...(await world.applied()).keys()]).toEqual(['m3'])
  },

  async 'a consumer that looks for redrives shows that it lives itself, and no other'(world) {
    const { redrives } = instanceOf(world.once).core.namespace
    const other = world.once.consumer('other', { from: memoryBroker().source }, { 'step.made': async () => {} })
    await other.drain()
    await world.park({ id: 'm1' })
    await world.unseen()
    const { id } = await world.once.redrive.run({}, BY)
    const seen = async (): Promise<number | null | undefined> =>
      (await world.once.redrive.status(id))?.consumerSeenAgoMs
    const waiting = `no process has run the consumer '${CONSUMER}' for a while: the redrive waits until one does`
    expect(await redrives?.claim({ consumer: 'other', leaseMs: 1 })).toBeNull()
    expect(await seen()).toBeGreaterThan(3_000_000)
    expect((await world.once.redrive.plan({})).warnings).toEqual([waiting])
    expect(await redrives?.claim({ consumer: CONSUMER, leaseMs: 1 })).toMatchObject({ redrive: id })
    expect(await seen()).toBeLessThan(60_000)
    expect((await world.once.redrive.plan({})).warnings).toEqual([])
  },

  async 'a leased consumer resumes after its recorded steps'(world) {
    const calls: string[] = []
    let broken = true
    const mail = world.once.consumer(
      'mail',
      { from: world.broker.source, lease: '5s', attempts: 1 },
      {
        'step.made': async (event, { step, commit }) => {
          await step('send', async () => void calls.push(event.id))
          return commit(async ({ tx }) => {
            await world.write(tx, event.id)
            if (broken) throw new Error('the mailbox is full')
          })
        },
      },
    )
    world.broker.publish({ id: 'l1', aggregate: 'a' }, { id: 'l2', aggregate: 'a' })
    await mail.drain()
    expect(calls).toEqual(['l1'])
    expect(await world.once.deadLetters.list({ consumer: 'mail' })).toMatchObject([
      { message: 'l1' },
      { message: 'l2' },
    ])
    broken = false
    const { id } = await world.once.redrive.run({ consumer: 'mail' }, BY)
    world.broker.publish({ id: 'l1', aggregate: 'a' })
    await mail.drain()
    expect(await world.once.redrive.status(id)).toMatchObject({ state: 'done', applied: 2 })
    expect(calls).toEqual(['l1', 'l2'])
    expect(await world.applied()).toEqual(new Map([['l1', 1], ['l2', 1]])) // prettier-ignore
  },
}
