import { onDiagnostics } from '../platform/diagnostics.ts'
import { callerPlace } from './place.ts'
import type { GuardedOperation, RunningOperations } from './guarded-operation.ts'
import type { Finding } from './warn.ts'

interface FetchMessage {
  readonly request?: { readonly origin?: unknown }
}

interface HttpMessage {
  readonly request?: { readonly host?: unknown; getHeader?(name: string): unknown }
}

/** Guard C: finds calls to other hosts while a transaction is open, through `fetch`, undici and `node:http(s)`. */
export function watchOutsideCalls(running: RunningOperations, isStoreHost: (host: string) => boolean): () => void {
  const heard = (hostOf: () => string | null): void => {
    const operation = running.current()
    if (!operation) return
    const host = hostOf() ?? 'another host'
    if (!isStoreHost(host)) operation.watched.grave(outsideCallOf(operation, host), 'atEnd')
  }
  const stops = [
    onDiagnostics('undici:request:create', (message) => heard(() => hostOfOrigin((message as FetchMessage).request))),
    onDiagnostics('http.client.request.start', (message) =>
      heard(() => hostOfHeader((message as HttpMessage).request)),
    ),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

function outsideCallOf({ route, leased }: GuardedOperation, host: string): Finding {
  const place = callerPlace()
  const remedy = leased ? 'Move the call from commit() into step()' : `Add lease: '30s' and put the call in step()`
  return {
    code: 'ONCE_OUTSIDE_CALL',
    route,
    place: host,
    line: `${route} called ${host}${place === null ? '' : ` (${place})`} inside its transaction. ${remedy}`,
  }
}

function hostOfOrigin(request: FetchMessage['request']): string | null {
  const origin = request?.origin
  if (origin instanceof URL) return origin.host
  return typeof origin === 'string' ? origin.replace(/^[a-z]+:\/\//, '') : null
}

/** The host with its port, from the header. */
function hostOfHeader(request: HttpMessage['request']): string | null {
  const host = request?.getHeader?.('host') ?? request?.host
  return typeof host === 'string' ? host : null
}
