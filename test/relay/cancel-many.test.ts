import { expect, it } from 'vitest'
import { event, inProcessSink, type Once } from '../../src/index.ts'
import { describeClient } from '../support/stores.ts'
import { wait } from './service.ts'
import { until } from './world.ts'

const events = { 'mail.wanted': event<{ id: string; text: string }>(({ id }) => id) }
const SOON_MS = 8_000
/** More than a relay reads at once, in number and in bytes. */
const BUSY = 100
const TEXT = 'x'.repeat(200_000)
const OTHERS = 5

describeClient('many events that somebody is cancelling', 'pg', (place) => {
  it('hold up nobody else', { timeout: 120_000 }, async () => {
    const once = place.once({ namespace: 'many', events } as never) as never as Once<unknown, typeof events>
    const time = Date.now() + SOON_MS
    const ids: string[] = []
    for (let n = 0; n < BUSY + OTHERS; n++) {
      const isBusy = n < BUSY
      const data = { id: `${isBusy ? 'busy' : 'other'} ${n}`, text: isBusy ? TEXT : '' }
      const notBefore = new Date(isBusy ? time : time + 300)
      ids.push(
        await once.run({ scope: 's', key: `${n}`, input: n }, (op) => op.publish('mail.wanted', data, { notBefore })),
      )
    }
    const [sent, applied]: [string[], string[]] = [[], []]
    const relay = once.relay({ to: inProcessSink(({ subject }) => void sent.push(subject ?? '')) })
    const consumer = once.consumer(
      'mails',
      { from: once.outbox, batch: 1, concurrency: 1 },
      {
        'mail.wanted': async ({ data }) => void applied.push(data.id),
      },
    )
    await relay.start()
    await consumer.start()
    try {
      const cancelling = place.bed.own(async (tx) => {
        for (const id of ids.slice(0, BUSY)) expect(await once.join(tx as never).cancel(id)).toBe('cancelled')
        await until(() => sent.length >= OTHERS && applied.length >= OTHERS, 30_000)
        throw new Error('not after all')
      })
      await expect(cancelling).rejects.toThrow('not after all')
      await until(() => sent.length >= BUSY + OTHERS && applied.length >= BUSY + OTHERS, 30_000)
      await wait(500)
      for (const seen of [sent, applied]) {
        expect(seen).toHaveLength(BUSY + OTHERS)
        expect(seen.slice(0, OTHERS).every((id) => id.startsWith('other'))).toBe(true)
      }
    } finally {
      await relay.stop()
      await consumer.stop()
    }
  })
})
