import { expect, it } from 'vitest'
import { event, inProcessSink, type Once } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { describeClient } from '../support/stores.ts'

const events = { 'mail.wanted': event<{ n: number }>(({ n }) => String(n)) }
const ID = '11111111-2222-4333-8444-555555555555'
const SOON_MS = 3_000
const INSERT = `insert into effectively_once.outbox (namespace, id, aggregatetype, aggregateid, type, payload, headers)
  values ($1, $2, 'mail', '1', 'mail.wanted', '{"n": 1}', $3)`

describeClient('two services whose events have the same id', 'pg', (place) => {
  it('cancel their own alone', { timeout: 60_000 }, async () => {
    const services = ['shop', 'billing'].map(
      (namespace) => place.once({ namespace, events } as never) as never as Once<unknown, typeof events>,
    )
    const [shop, billing] = services as [Once<unknown, typeof events>, Once<unknown, typeof events>]
    const notbefore = new Date(Date.now() + SOON_MS).toISOString()
    const [sent, again]: [string[], string[]] = [[], []]
    const relays = services.map((of, n) =>
      of.relay({ to: inProcessSink(({ id }) => void sent.push(`${n} ${id}`), { name: 'hook' }) }),
    )
    for (const relay of relays) await relay.start()
    for (const namespace of ['shop', 'billing'])
      await place.bed.admin(INSERT, [namespace, ID, JSON.stringify({ notbefore })])
    const consumer = billing.consumer(
      'mails',
      { from: billing.outbox },
      {
        'mail.wanted': async ({ id }) => void again.push(id),
      },
    )
    await consumer.start()
    expect(await shop.cancel(ID)).toBe('cancelled')
    await until(() => sent.length > 0 && again.length > 0)
    expect([sent, again]).toEqual([[`1 ${ID}`], [ID]])
    expect([await shop.cancel(ID), await billing.cancel(ID)]).toEqual(['cancelled', 'due'])
    expect(await billing.resend({ since: new Date(0), destination: 'hook' })).toBe(1)
    expect(await shop.resend({ since: new Date(0), destination: 'hook' })).toBe(0)
    await Promise.all([...relays.map((relay) => relay.stop()), consumer.stop()])
  })
})
