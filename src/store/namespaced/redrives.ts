import type { CreatedRedrive, Redrives, StoredRedrive } from '../redrives.ts'
import { bare, ownFilter } from './letters.ts'
import { partsOf } from './names.ts'
import type { Own } from './own.ts'

/** Redrives as one namespace sees them: those of its own consumers, under the names the program gave them. */
export function namespacedRedrives<Tx>(redrives: Redrives<Tx>, own: Own): Redrives<Tx> {
  /** A redrive never changes its consumer, so one check of its owner is enough. */
  const get = async (params: { readonly redrive: number }): Promise<StoredRedrive | null> => {
    const [no, found] = [await own.look(), await redrives.get(params)]
    return found !== null && partsOf(found.consumer).no === no ? bare(found) : null
  }
  return {
    plan: async ({ filter }) => (await redrives.plan({ filter: ownFilter(filter, await own.look()) })).map(bare),
    create: async ({ filter, ...params }) =>
      bareCreated(await redrives.create({ ...params, filter: ownFilter(filter, await own.look()) })),
    async items(params) {
      const items = await redrives.items(params)
      return items.map(({ letter, ...item }) => ({ ...item, letter: bare(letter) }))
    },
    copy: (params) => redrives.copy(params),
    async change(params) {
      // The holder of the lease has already checked the owner.
      if (params.token === undefined && (await get(params)) === null) return null
      const changed = await redrives.change({ ...params, namespace: await own.look() })
      return changed && bare(changed)
    },
    get,
    list: async ({ limit }) => (await redrives.list({ limit, namespace: await own.look() })).map(bare),
    async claim({ consumer, leaseMs }) {
      const lease = await redrives.claim({ consumer: own.stored(consumer), leaseMs })
      return lease && { ...lease, consumer }
    },
    beat: (params) => redrives.beat(params),
    settle: (session, params) => redrives.settle(session, params),
    decide: (params) => redrives.decide(params),
    extend: (params) => redrives.extend(params),
    release: (params) => redrives.release(params),
    audit: async (params) => redrives.audit({ ...params, namespace: await own.look() }),
    write: async (entry) => redrives.write({ ...entry, namespace: await own.look() }),
    async import({ letters }) {
      await own.enter()
      return redrives.import({
        letters: letters.map((letter) => ({ ...letter, consumer: own.stored(letter.consumer) })),
      })
    },
    // A sweep covers all namespaces.
    sweep: (params) => redrives.sweep(params),
  }
}

function bareCreated(created: CreatedRedrive): CreatedRedrive {
  return created.kind === 'active' || created.plan === null ? created : { ...created, plan: bare(created.plan) }
}
