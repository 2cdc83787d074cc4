import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { promtool } from '../../scripts/servers/prometheus.ts'

const INSTALL_MS = 300_000
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const rules = readFileSync(here('../../observability/alerts.yml'), 'utf8')
const cases = readFileSync(here('alerts.test.yml'), 'utf8')
const page = readFileSync(here('../../docs/observability.md'), 'utf8')
const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name)

describe('the alert rules', () => {
  let binary: string
  beforeAll(async () => void (binary = await promtool()), INSTALL_MS)
  const run = async (...args: string[]): Promise<string> => (await promisify(execFile)(binary, args)).stdout

  it('are accepted by promtool', async () => {
    expect(await run('check', 'rules', here('../../observability/alerts.yml'))).toContain(
      `${alerts.length} rules found`,
    )
  })

  it('fire and stay quiet as they should', async () => {
    expect(await run('test', 'rules', here('alerts.test.yml'))).toContain('SUCCESS')
  })

  it('are all tested', () => {
    expect(alerts.length).toBeGreaterThan(10)
    const tested = [...cases.matchAll(/- name: (\w+) (fires|stays quiet)/g)].map(([, name]) => `EffectivelyOnce${name}`)
    expect(tested.toSorted()).toEqual([...alerts, ...alerts].toSorted())
  })

  it('each have a section of the runbook', () => {
    const linked = [
      ...rules.matchAll(/runbook_url: https:\/\/unpkg\.com\/effectively-once\/docs\/observability\.md#(\w+)/g),
    ].map(([, anchor]) => anchor)
    expect(linked).toEqual(alerts.map((name) => name.toLowerCase()))
    const sections = [...page.matchAll(/^### (EffectivelyOnce\w+)$/gm)].map(([, name = '']) => name)
    expect(sections.toSorted()).toEqual(alerts.toSorted())
  })
})
