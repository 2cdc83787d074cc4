import type { Parked } from '../parked.ts'
import { storedName } from './names.ts'
import type { Own } from './own.ts'

/** Parked events as one namespace sees them: those of its own destinations. */
export function namespacedParked(parked: Parked, own: Own): Parked {
  /** A namespace without a number has no destinations. */
  const to = async <P extends { readonly destination: string }>(params: P): Promise<P | null> => {
    const no = await own.look()
    return no < 0 ? null : { ...params, destination: storedName(no, params.destination) }
  }
  return {
    async list(params) {
      const stored = await to(params)
      return stored === null ? [] : parked.list(stored)
    },
    async lines(params) {
      const stored = await to(params)
      return stored === null ? [] : parked.lines(stored)
    },
    async settle(params) {
      const stored = await to(params)
      return stored === null ? { released: 0, skipped: 0, more: false } : parked.settle(stored)
    },
  }
}
