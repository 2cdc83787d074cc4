import { afterEach, beforeEach } from 'vitest'
import { openWorld, type Started, type World } from './world.ts'

/** A world for each test of a file or suite, and the server the test started in it: both are closed after the test. */
export function worldOfEachTest(): { readonly world: World; started: Started | undefined } {
  const place: { world: World | undefined; started: Started | undefined } = { world: undefined, started: undefined }
  beforeEach(async () => {
    place.world = await openWorld('sqlite')
  })
  afterEach(async () => {
    await place.started?.close()
    place.started = undefined
    await place.world?.close()
  })
  return place as { readonly world: World; started: Started | undefined }
}
