import type { Watch } from '../store/store.ts'
import { callerPlace } from './place.ts'
import type { Bypass, RunningOperations } from './guarded-operation.ts'
import type { Finding } from './warn.ts'

type Call = Parameters<Parameters<Watch['bypass']>[0]>[0]

/** Guard A: finds queries that bypass `tx`. If the pool is starved, the query itself throws in mode 'throw'. */
export function watchBypasses(watch: Watch, running: RunningOperations): () => void {
  return watch.bypass((call) => {
    const operation = running.current()
    if (!operation) return
    const bypass = bypassOf(operation.route, call)
    if (call.starved) operation.watched.grave(starvationOf(bypass, call.total), 'now')
    operation.watched.bypassed(bypass)
  })
}

function bypassOf(route: string, { words }: Call): Bypass {
  const connecting = words === 'connect'
  const found = callerPlace()
  const place = found ?? (connecting || words === '' ? null : `"${words}"`)
  const verb = connecting ? 'took a connection from the pool' : 'queried the pool'
  return { route, place: place ?? words, action: place === null ? verb : `${verb} (${place})` }
}

/** As far as the guard can tell, nothing was written through tx, so the effect went to the pool. */
export function bypassedEffect({ route, place, action }: Bypass): Finding {
  return {
    code: 'ONCE_TX_BYPASSED',
    route,
    place,
    line: `${route} ${action}. Only tx commits with the key; after a crash the retry repeats this. Use tx`,
  }
}

/** The operation wrote through tx, or failed. The query on the pool was not part of it. */
export function bypassedBeside({ route, place, action }: Bypass): Finding {
  return {
    code: 'ONCE_TX_BYPASSED',
    route,
    place,
    line: `${route} ${action} outside tx: such a query does not see the writes of tx, and does not roll back with tx. Use tx`,
  }
}

function starvationOf({ route, place, action }: Bypass, total: number): Finding {
  const held = total === 1 ? 'it holds the only connection' : `all ${total} connections are in use, one of them by it`
  return {
    code: 'ONCE_POOL_STARVED',
    route,
    place,
    line: `${route} ${action} while ${held}: operations can wait for each other until their deadline. Use tx`,
  }
}
