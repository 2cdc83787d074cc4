import { defineConfig } from 'vitest/config'

const ALL = ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts']
/** Real brokers, browsers and many killed processes: `npm run test:long`, so that `npm test` stays quick. */
export const LONG: readonly string[] = [
  'src/broker/refuses-all.test.ts',
  'src/consumer/{alike-failures,at-most-once,drain,leased,swept-witness}.test.ts',
  'src/outbox/{away,due-crowd,hanging-event}.test.ts',
  'src/source/{outbox-orphans,outbox-resent}.test.ts',
  'src/store/postgres/{pg,pglite}.test.ts',
  'src/store/sqlite/processes.test.ts',
  'src/testing/{differential,differential-inbox,differential-outbox}.test.ts',
  'src/testing/sim/{company,redrive,releases,set-aside,weather}.test.ts',
  'test/namespaces/**/*.test.ts',
  'test/protocol/{batch-blame,batched,erase,erase-beside,in-flight,leased-ends,long-schema,meeting,mixed-modes,natural,nested,old-postgres,operations,past-deadline,promoted,raised,read-only,refused-late,retention,savepoints,session-ended,status,sweep,two-stores,undo,unreadable,unstorable}.test.ts',
  'test/bench/ledger-notices.test.ts',
  'test/broker/**/*.test.ts',
  'test/chaos/**/*.test.ts',
  'test/cli/**/*.test.ts',
  'test/client/{browser,browser-storages,chaos,hook,redirects,storages}.test.ts',
  'test/consumer/**/*.test.ts',
  'test/docs-run/**/*.test.ts',
  'test/deploy/**/*.test.ts',
  'test/engines/**/*.test.ts',
  'test/examples/**/*.test.ts',
  'test/hosts/**/*.test.ts',
  'test/http/{captured,framework-errors,layers,lost-transactions,recover,timeouts,unsendable}.test.ts',
  'test/mcp/**/*.test.ts',
  'test/playground/**/*.test.ts',
  'test/programs/programs.test.ts',
  'test/reconciliation/**/*.test.ts',
  'test/redis/**/*.test.ts',
  'test/redrive/**/*.test.ts',
  'test/relay/**/*.test.ts',
  'test/runtimes/**/*.test.ts',
  'test/setups/tutorial.test.ts',
  'test/shutdown/**/*.test.ts',
  'test/soak-http/**/*.test.ts',
  'test/streams/{chaos,left,stuck}.test.ts',
  'test/telemetry/**/*.test.ts',
  'test/tier/**/*.test.ts',
  'test/toys/**/*.test.ts',
  'test/upgrade/**/*.test.ts',
  'test/verify/**/*.test.ts',
  'test/weather/**/*.test.ts',
]
/** Installs Jest, esbuild and TypeScript for three versions of Node: `npm run test:setups`. */
const SETUPS: readonly string[] = ['test/setups/setups.test.ts']
const isSetups = process.env['TESTS'] === 'setups'
const isLong = process.env['TESTS'] === 'long'

export default defineConfig({
  // As in tsconfig.json: the examples import the package by its name, and here that is the source.
  resolve: {
    alias: [
      { find: /^effectively-once$/, replacement: `${import.meta.dirname}/src/index.ts` },
      { find: /^effectively-once\/(.+)$/, replacement: `${import.meta.dirname}/src/entry/$1.ts` },
    ],
  },
  test: {
    include: isSetups ? [...SETUPS] : isLong ? [...LONG] : ALL,
    exclude: ['**/node_modules/**', '.compiled/**', ...(isLong || isSetups ? [] : LONG), ...(isSetups ? [] : SETUPS)],
    globalSetup: ['test/support/global-setup.ts'],
    // The long ones wait for servers and processes much of the time.
    maxWorkers: isLong ? 4 : 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
