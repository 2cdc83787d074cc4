import { expect, it } from 'vitest'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeAll, describeClients } from '../support/stores.ts'
import { service, type Service } from './services.ts'

describeAll('a namespace that is first used inside a transaction', (place) => {
  let names = 0
  const open = () => service(`inside-${names++}`, place.bed.store)

  it('joined: is registered with it, or not at all', async () => {
    const { bed } = place
    const [lost, kept] = [open(), open()]
    await bed
      .own(async (tx) => {
        await lost.once.join(tx).publish('note.made', { to: 'anna', n: 1 })
        throw new Error('no')
      })
      .catch(() => {})
    await bed.own(async (tx) => {
      await kept.once.join(tx).publish('note.made', { to: 'anna', n: 2 })
      await kept.once.join(tx).publish('note.made', { to: 'anna', n: 3 })
    })
    await lost.publish(1)
    expect(await kept.sent()).toEqual([`${kept.name} 2`, `${kept.name} 3`])
    expect(await lost.sent()).toEqual([`${lost.name} 1`])
  })

  it('nested in an operation of another instance: publishes its own events', async () => {
    const { bed } = place
    const [outer, inner] = [open(), open()]
    await outer.publish(1)
    const later = service(inner.name, bed.store)
    await bed.own(async (tx) => {
      await outer.once.join(tx).run({ scope: 's', key: `${inner.name}-o`, input: null }, async ({ publish }) => {
        await publish('note.made', { to: 'anna', n: 7 })
      })
      await inner.once.join(tx).run({ scope: 's', key: `${inner.name}-i`, input: null }, async ({ publish }) => {
        await publish('note.made', { to: 'anna', n: 8 })
      })
    })
    expect(await outer.sent()).toEqual([`${outer.name} 1`, `${outer.name} 7`])
    expect(await later.sent()).toEqual([`${inner.name} 8`])
  })

  it('and inside a savepoint of the handler’s own that is rolled back: its number is nobody else’s', async () => {
    const { bed } = place
    const [undoing, next] = [open(), open()]
    await bed.own((own) =>
      undoing.once.join(own).run({ scope: 's', key: undoing.name, input: null }, async ({ tx, publish }) => {
        await bed.raw(tx, 'savepoint mine')
        await publish('note.made', { to: 'anna', n: 1 })
        await bed.raw(tx, 'rollback to savepoint mine')
      }),
    )
    await next.publish(1)
    expect(await next.sent()).toEqual([`${next.name} 1`])
    expect(await undoing.sent()).toEqual([`${undoing.name} 1`])
  })
})

/**
 * One transaction registers a namespace and wants a shard, the other has the shard and wants to register: the database
 * must see both waits, or nobody ends them.
 */
async function circle(
  open: () => Service,
  own: (work: (tx: unknown) => Promise<void>) => Promise<void>,
): Promise<{ errors: unknown[]; ms: number }> {
  const [known, first, second] = [open(), open(), open()]
  await known.publish(1)
  const both = meeting(2)
  const note = { to: 'anna', n: 1 }
  const begun = performance.now()
  const ends = await Promise.allSettled([
    own(async (tx) => {
      await first.once.join(tx).publish('note.made', note)
      await both()
      await known.once.join(tx).publish('note.made', note)
    }),
    own(async (tx) => {
      await known.once.join(tx).publish('note.made', note)
      await both()
      await second.once.join(tx).publish('note.made', note)
    }),
  ])
  const errors = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []))
  return { errors, ms: performance.now() - begun }
}

/** Nobody goes on before so many came. */
function meeting(size: number): () => Promise<void> {
  const waiting: (() => void)[] = []
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve)
      if (waiting.length === size) for (const go of waiting) go()
    })
}

describeClients('two namespaces that are first used inside transactions', (place) => {
  let names = 0

  it('and wait for each other: the database ends it', async () => {
    const open = (): Service => service(`circle-${names++}`, place.bed.store)
    const { errors, ms } = await circle(open, (work) => place.bed.own(work))
    expect(errors).toEqual([expect.objectContaining({ code: 'ONCE_CONFLICT' })])
    expect(ms).toBeLessThan(4_000)
  })
})

it('memory: two new namespaces whose transactions wait for each other, one is told', async () => {
  const store = memoryStore()
  let names = 0
  const open = (): Service => service(`circle-${names++}`, store)
  const { errors, ms } = await circle(open, (work) => store.transaction(work))
  expect(errors).toEqual([expect.objectContaining({ code: 'ONCE_CONFLICT' })])
  expect(ms).toBeLessThan(4_000)
})

it('memory: a namespace that is registered by two at once has one number', async () => {
  const { namespaces } = memoryStore()
  if (!namespaces) throw new Error('no namespaces')
  const numbers = await Promise.all(['a', 'b', 'a', 'b', 'c'].map((name) => namespaces.register({ name })))
  expect(numbers[0]).toBe(numbers[2])
  expect(numbers[1]).toBe(numbers[3])
  expect(new Set(numbers)).toEqual(new Set([0, 1, 2]))
})
