/** Line and column of the start, line and column of the end, all from 0; 1 if the range was executed. */
export type ReachedRange = readonly [number, number, number, number, 0 | 1]

/** What a test file executed. */
export interface Reached {
  /** Whether the test file also started processes or threads: what they executed is unknown. */
  readonly elsewhere: boolean
  /** For each product file that was loaded. Outer ranges stand before inner ones. */
  readonly ranges: Record<string, readonly ReachedRange[]>
}

/** Whether the test file may have executed this place. Line and column count from 0. */
export function reaches({ elsewhere, ranges }: Reached, file: string, line: number, column: number): boolean {
  if (elsewhere) return true
  const around = ranges[file]?.findLast(([startLine, startColumn, endLine, endColumn]) => {
    const after = line > startLine || (line === startLine && column >= startColumn)
    const before = line < endLine || (line === endLine && column < endColumn)
    return after && before
  })
  return ranges[file] !== undefined && around?.[4] !== 0
}
