/**
 * Writes the pages of the docs and their chart again, from what was measured last.
 *
 * npm run bench:page
 */
import { writePages } from './results/store.ts'

writePages()
