import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Report } from '../report.ts'
import { pagesOf } from './pages.ts'
import type { Results } from './results.ts'

const FILE = join('bench', 'results.json')

export function readResults(): Results {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Results
}

/** Keeps what another command found, and writes the pages again. */
export function storeResults(change: (results: Results) => Results): void {
  const results = change(readResults())
  const text = JSON.stringify(
    results,
    (_, value: unknown) => (typeof value === 'number' ? significant(value) : value),
    2,
  )
  writeFileSync(FILE, `${text}\n`)
  writePages()
}

export function writePages(): void {
  for (const [file, text] of pagesOf(readResults(), (path) => readFileSync(path, 'utf8'))) writeFileSync(file, text)
}

export function runName({ measured: { postgres, node } }: Report): string {
  return `PostgreSQL ${postgres.split('.')[0]}, Node ${node.split('.')[0]}`
}

function significant(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(4))
}
