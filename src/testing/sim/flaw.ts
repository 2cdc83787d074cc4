import { decide } from '../../lifecycle/decide.ts'
import { STATEMENTS } from '../../store/memory/statements/index.ts'
import type { Flaw } from './process.ts'

export const SOUND: Flaw = {
  decide,
  statements: STATEMENTS,
  wrap: (store) => store,
  sink: (sink) => sink,
  cache: (server) => server,
  named: (address) => address,
  hears: () => true,
  source: (source) => source,
}
