import { brokerNamed } from './broker.ts'
import type { Halting } from './describe-broker.ts'
import type { SourceTarget } from './source-cases.ts'

/** A source, and the sink that feeds it, at a place of its own on this server. */
export async function sourceTarget(name: string, server: Halting): Promise<SourceTarget> {
  const broker = await brokerNamed(name)
  const place = `source_${Math.random().toString(36).slice(2)}`
  const there = await broker.open({ url: server.url, place, make: true })
  const sink = there.sink()
  await sink.open?.()
  if (!there.source || !there.sendText) throw new Error(`${name} has no source yet`)
  return {
    source: there.source({}, { holdsFor: '2s' }),
    sendText: (text) => there.sendText?.(text) ?? Promise.resolve(),
    async send(...events) {
      const verdicts = await sink.send(events, { signal: new AbortController().signal })
      for (const verdict of verdicts) if (verdict.kind !== 'sent') throw verdict.error
    },
    outage: {
      begin: () => server.halt(),
      async end() {
        await server.resume()
        await there.back()
      },
    },
    async close() {
      await there.remove()
      await there.close()
    },
  }
}
