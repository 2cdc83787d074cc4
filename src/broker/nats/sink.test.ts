import { expect, it } from 'vitest'
import { eventFor } from '../../testing/sink-contract/index.ts'
import { natsSink, type NatsJetStream } from './sink.ts'

it('in binary mode the attributes are headers', async () => {
  const sent: unknown[] = []
  const js = {
    publish: async (_subject: string, _payload: unknown, { headers }: { headers?: Map<string, string> }) =>
      void sent.push(Object.fromEntries(headers ?? [])),
    jetstreamManager: async () => ({}),
  }
  const sink = natsSink(js as unknown as NatsJetStream, { stream: 's', mode: 'binary', headers: () => new Map() })
  const event = eventFor('a', 1)
  await sink.send([event], { signal: new AbortController().signal })
  expect(sent).toMatchObject([{ 'ce-id': event.id, 'ce-type': event.type, 'ce-datacontenttype': 'application/json' }])
})
