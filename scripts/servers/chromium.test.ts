import { describe, expect, it } from 'vitest'
import { findChromium } from './chromium.ts'

describe('the browser', () => {
  it('is the one that CHROMIUM names', async () => {
    expect(await findChromium({ CHROMIUM: process.execPath })).toEqual({
      executable: process.execPath,
      from: 'environment',
    })
  })
  it('is missing with its reason, and that is an error only where REQUIRE_SERVICES asks for it', async () => {
    const missing = 'CHROMIUM names /nowhere, which does not exist'
    expect(await findChromium({ CHROMIUM: '/nowhere' })).toEqual({ missing })
    expect(await findChromium({ CHROMIUM: '/nowhere', REQUIRE_SERVICES: 'postgres' })).toEqual({ missing })
    for (const REQUIRE_SERVICES of ['all', 'postgres,chromium']) {
      await expect(findChromium({ CHROMIUM: '/nowhere', REQUIRE_SERVICES })).rejects.toThrow(missing)
    }
  })
})
