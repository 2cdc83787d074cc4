/** A setup file of vitest: records which parts of the product a test file executes. */
import { subscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { SourceMap } from 'node:module'
import { relative } from 'node:path'
import { afterAll, inject } from 'vitest'
import type { Reached, ReachedRange } from './reached.ts'

const FAR = 200
const into = inject('reachInto')
if (into !== '') record(into)

function record(file: string): void {
  let elsewhere = false
  for (const channel of ['child_process', 'worker_threads']) subscribe(channel, () => (elsewhere = true))
  const session = new Session()
  session.connect()
  const post = (method: string, params: object = {}): unknown => {
    let answer: unknown
    // The session answers before `post` returns.
    session.post(method, params, (error, result) => {
      if (error) throw error
      answer = result
    })
    return answer
  }
  post('Debugger.enable')
  post('Profiler.enable')
  post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  afterAll(() => {
    const root = process.cwd()
    const ranges: Reached['ranges'] = {}
    const { result } = post('Profiler.takePreciseCoverage') as { result: Script[] }
    for (const script of result) {
      const path = relative(root, script.url.replace(/^file:\/\//, ''))
      if (!path.startsWith('src/')) continue
      const { scriptId } = script
      const { scriptSource } = post('Debugger.getScriptSource', { scriptId }) as { scriptSource: string }
      ranges[path] = rangesOf(script, scriptSource)
    }
    session.disconnect()
    writeFileSync(file, JSON.stringify({ elsewhere, ranges } satisfies Reached))
  })
}

interface Range {
  readonly startOffset: number
  readonly endOffset: number
  readonly count: number
}
interface Script {
  readonly scriptId: string
  readonly url: string
  readonly functions: readonly { readonly ranges: readonly Range[] }[]
}

/** The ranges as places of the source file, outer ranges before inner ones. */
function rangesOf({ functions }: Script, text: string): ReachedRange[] {
  const [, encoded] = /sourceMappingURL=data:application\/json[^,]*;base64,([\w+/=]+)/.exec(text) ?? []
  if (encoded === undefined) return []
  const map = new SourceMap(JSON.parse(Buffer.from(encoded, 'base64').toString()))
  const starts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  /** Not every offset has a place: the next one that has, or the one before. */
  const place = (offset: number, next: boolean): readonly [number, number] | undefined => {
    for (let at = offset; at <= offset + FAR; at++) {
      const line = starts.findLastIndex((start) => start <= at)
      const column = at - (starts[line] as number)
      const entry = map.findEntry(line, column)
      if (!('originalLine' in entry)) continue
      const isExact = entry.generatedLine === line && entry.generatedColumn === column
      if (isExact || !next) return [entry.originalLine, entry.originalColumn]
    }
    return undefined
  }
  const size = ({ startOffset, endOffset }: Range): number => endOffset - startOffset
  const ranges = functions.flatMap((one) => one.ranges).toSorted((a, b) => size(b) - size(a))
  return ranges.flatMap(({ startOffset, endOffset, count }): ReachedRange[] => {
    // A place at the edge of a range counts as executed.
    const idle = count === 0
    const [start, end] = [place(startOffset, idle), place(endOffset, !idle)]
    return start && end ? [[...start, ...end, idle ? 0 : 1]] : []
  })
}
