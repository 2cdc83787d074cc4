import { createRequire } from 'node:module'
import type { Run } from './report.ts'

/** The version of this package, which finds itself by its name. */
export const version: Run = async () => {
  const { version: text } = createRequire(import.meta.url)('effectively-once/package.json') as { version: string }
  return { text, data: { version: text } }
}
