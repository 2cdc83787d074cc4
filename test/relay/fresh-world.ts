import { afterEach, beforeEach } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { openWorld, prepare, type World } from './world.ts'

/** A world on a database of its own for each test of this `describe`. What is to end before it is registered after it. */
export function freshWorld(): { readonly world: World; readonly url: string } {
  let database: FreshDatabase
  let world: World
  beforeEach(async () => {
    database = await freshDatabase()
    world = await openWorld(database.url)
    await prepare(world)
  })
  afterEach(async () => {
    await world.close()
    await database.drop()
  })
  return {
    get world() {
      return world
    },
    get url() {
      return database.url
    },
  }
}
