import type { Duration } from '../duration.ts'
import { verify as verifyModule, VerificationError } from '../testing/verify/verify.ts'
import { counted, type Report, type Run } from './report.ts'
import { EXIT } from './usage.ts'

/** Kills real processes at every boundary of a handler: see docs/testing.md. */
export const verify: Run = async (given, { signal }) => {
  const { within, import: imports = [] } = given.values
  const line = progressLine()
  try {
    const report = await verifyModule({
      module: given.operand as string,
      import: imports,
      signal,
      onProgress: ({ schedule, of, what }) => line(`${schedule} of ${of}: ${what}`),
      ...(within !== undefined && { within: within as Duration }),
    })
    line('')
    const { boundaries, schedules, unreached } = report
    const rest = unreached.length === 0 ? '' : `; not reached again: ${unreached.join(', ')}`
    const places = boundaries.length === 1 ? '1 boundary' : `${boundaries.length} boundaries`
    const text = `held: ${counted(schedules, 'schedule')} at ${places}${rest}`
    return { text, data: { held: true, ...report } }
  } catch (error) {
    line('')
    if (error instanceof VerificationError) return broken(error)
    throw error
  }
}

function broken(error: VerificationError): Report {
  const { boundary, side, steps, reason, message } = error
  const lines = steps.map((step, index) => {
    const isLast = index === steps.length - 1
    return `  ${index + 1}. ${step}${isLast ? `   <- killed ${side} this, then retried` : ''}`
  })
  return {
    text: [`broken: ${message}`, ...lines].join('\n'),
    data: { held: false, boundary, side, steps, reason, message },
    exit: EXIT.failed,
  }
}

const LINE_LENGTH_MAX = 100

/** One line that is written over, on a terminal only. */
function progressLine(): (text: string) => void {
  if (!process.stderr.isTTY) return () => {}
  return (text) => process.stderr.write(`\r\u001B[2K${text.slice(0, LINE_LENGTH_MAX)}`)
}
