import { afterAll, beforeAll, expect, it } from 'vitest'
import { follow } from './follow.ts'
import { packPackage, type Packed } from './package.ts'

const TIMEOUT_MS = 900_000

let packed: Packed
beforeAll(async () => {
  packed = await packPackage()
}, TIMEOUT_MS)
afterAll(() => packed?.remove(), TIMEOUT_MS)

it('the tutorial of the tarball can be followed in an empty folder', { timeout: TIMEOUT_MS }, async () => {
  const folder = await packed.empty('tutorial')
  const did = await follow(await packed.page('docs/tutorial.md'), { folder, tarball: packed.tarball })
  expect(did).toEqual({ files: 5, runs: 8, outputs: 4 })
})
