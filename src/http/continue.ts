import type { ServerResponse } from 'node:http'
import type { ServerHttp2Stream } from 'node:http2'
import { isHttp2 } from './http2-response.ts'

/**
 * A server that listens to `checkContinue` lets the handler ask for the body. The body is read before the handler runs,
 * so we ask.
 */
export function askForBody(res: ServerResponse): void {
  const isAsked = isHttp2(res)
    ? res.req.headers.expect === '100-continue'
    : Reflect.get(res, '_expect_continue') === true
  if (isAsked && !isContinued(res) && !res.req.complete) res.writeContinue()
}

/** Whether the client was told to send its body. */
export function isContinued(res: ServerResponse): boolean {
  if (!isHttp2(res)) return Reflect.get(res, '_sent100') === true
  const { sentInfoHeaders = [] } = Reflect.get(res, 'stream') as ServerHttp2Stream
  return sentInfoHeaders.some((headers) => headers[':status'] === 100)
}
