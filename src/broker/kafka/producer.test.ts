import { expect, it } from 'vitest'
import type { KafkaProducer } from './client.ts'
import { KafkaProducerSlot } from './producer.ts'

interface Made {
  readonly settings: object
  closed: number
}

function slotOf(made: Made[], transactionalId?: string): KafkaProducerSlot {
  return new KafkaProducerSlot((settings) => {
    const one: Made = { settings, closed: 0 }
    made.push(one)
    return {
      send: async () => ({}),
      beginTransaction: async () => ({}),
      close: async () => void one.closed++,
    } as unknown as KafkaProducer
  }, transactionalId)
}

it.each([undefined, null, {}, { send() {} }, { beginTransaction() {} }])(
  'what makes %o makes no producer',
  async (producer) => {
    const slot = new KafkaProducerSlot(() => producer as unknown as KafkaProducer)
    await expect(slot.use(undefined, async () => 'sent')).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
  },
)

it('a producer has a transactional id only where one was given', async () => {
  const made: Made[] = []
  for (const id of [undefined, 'shop']) await slotOf(made, id).use(undefined, async () => {})
  expect(made.map(({ settings }) => settings)).toEqual([
    expect.not.objectContaining({ transactionalId: expect.anything() }),
    expect.objectContaining({ transactionalId: 'shop', idempotent: true, acks: -1 }),
  ])
})

it('a producer is closed after a failure, and at the end', async () => {
  const made: Made[] = []
  const slot = slotOf(made)
  await slot.use(undefined, async () => {})
  await expect(slot.use(undefined, () => Promise.reject(new Error('no leader')))).rejects.toThrow('no leader')
  await slot.use(undefined, async () => {})
  expect(made.map(({ closed }) => closed)).toEqual([1, 0])
  await slot.close()
  expect(made.map(({ closed }) => closed)).toEqual([1, 1])
})
