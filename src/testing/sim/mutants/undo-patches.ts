import type { Patch } from './patches.ts'

const FOUND_WITH_REFUSALS: readonly Omit<Patch, 'of'>[] = [
  {
    name: 'a refusal leaves the finished steps as they are',
    file: 'src/operation/undo.ts',
    find: '    if (undo.length === 0) return finish\n',
    replace: '    return finish\n',
  },
  {
    name: 'steps are undone in the order in which they began',
    file: 'src/operation/undo.ts',
    find: 'names.toReversed()',
    replace: 'names',
  },
  {
    name: 'each attempt undoes under another key',
    file: 'src/operation/step.ts',
    find: 'const key = this.#keyOf(undoName(name), options)',
    replace: 'const key = this.#keyOf(undoName(name) + this.#holder.token, options)',
  },
  {
    name: 'the next attempt forgets that an operator refused',
    file: 'src/operation/undo.ts',
    find: 'this.refusal = recordedRefusal(recorded.get(refusalName))',
    replace: 'this.refusal = null',
  },
  {
    name: 'a refused operation commits',
    file: 'src/operation/leased.ts',
    find: '  steps.undos.checkCommit()\n',
    replace: '',
  },
  {
    name: 'a call that failed is taken for a call that was not made',
    file: 'src/operation/undo.ts',
    find: "? 'none' : 'open'",
    replace: "? 'none' : 'none'",
  },
]

/** Mutants of the undo of refused operations. */
export const UNDO_PATCHES: readonly Patch[] = FOUND_WITH_REFUSALS.map((patch) => ({
  ...patch,
  of: 'I37',
  weather: 'refusals',
}))
