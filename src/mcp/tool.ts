import type { Duration } from '../duration.ts'
import { isOnceError, onceError, type OnceError } from '../errors.ts'
import { instanceOf } from '../once/instance.ts'
import type { Once } from '../once/types.ts'
import { valueOf } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import { RUN_OPTIONS } from '../operation/settings.ts'
import type { LeasedOperation, Op, Operation, Result, RunOptions } from '../operation/types.ts'
import { invalid, optionalFunction, refuseUnknown } from '../options.ts'
import type { Events } from '../outbox/event.ts'
import { FailedResult, isToolResult, refusalOf, replayOf, resultOfFinal } from './result.ts'
import type { ToolCall, ToolExtra, ToolOptions, ToolResult } from './types.ts'

const OPTIONS = new Set([...RUN_OPTIONS, 'name', 'onError'].filter((option) => option !== 'input'))

/**
 * The callback of an MCP tool whose handler runs once per key. A repeated call gets the stored result, with
 * `effectively-once/replayed` in `_meta`. Refusals are results with `isError` that the model can read. A result with
 * `isError` is not stored: its rows are rolled back, and a repeated call runs again.
 *
 * @example
 * const charge = idempotentTool(once, { name: 'charge', scope: userOf, key: toolKey }, async (args, extra, { tx }) => …)
 * server.registerTool('charge', { inputSchema }, charge)
 */
export function idempotentTool<
  Tx,
  E extends Events,
  Args,
  Extra extends ToolExtra,
  R extends ToolResult,
  const L extends Duration | undefined = undefined,
>(
  once: Once<Tx, E>,
  options: ToolOptions<Args, Extra, L>,
  handler: (args: Args, extra: Extra, op: Op<L, Tx, E>) => Promise<Result<L, R>>,
): (args: Args, extra: Extra) => Promise<R> {
  const instance = instanceOf(once)
  const { name: tool, scope, key, label, onError = report, ...settings } = checkOptions(options)
  if (typeof handler !== 'function') throw invalid('idempotentTool() needs a handler')

  /** Throws what the operation throws, and the refusals of this package. */
  const call = async (given: ToolCall<Args, Extra>): Promise<ToolResult> => {
    const operation: RunOptions<Duration | undefined> = {
      ...settings,
      scope: scope === 'global' ? scope : scope(given),
      key: (await key(given)) ?? missing(),
      // The tool belongs to the fingerprint: one key for two tools is a mistake, never a replay.
      input: { tool, args: given.args },
      ...(settings.ignore && { ignore: settings.ignore.map((pointer) => `/args${pointer}`) }),
    }
    const said = label?.(given)
    if (said !== undefined) operation.label = said
    const run = async (op: Op<L, Tx, E>): Promise<unknown> =>
      settings.lease === undefined
        ? checked(await handler(given.args, given.extra, op))
        : handler(given.args, given.extra, checking(op as LeasedOperation<Tx, E>) as Op<L, Tx, E>)
    const named = Object.defineProperty(run, 'name', { value: tool })
    const { answer, replayed } = await instance.outcome(operation, named)
    const result = resultOf(() => valueOf(answer))
    return replayed ? replayOf(result) : result
  }

  return async (args, extra) => {
    // The SDK calls a tool without an input schema with one argument.
    if (extra === undefined) throw invalid(`the tool ${tool} needs an inputSchema; without arguments use {}`)
    const given: ToolCall<Args, Extra> = { tool, args, extra }
    try {
      return (await call(given)) as R
    } catch (error) {
      if (error instanceof FailedResult) return error.result as R
      // The handler's own error: the SDK turns it into a result.
      if (!isOnceError(error)) throw error
      if (error.status >= 500 && !error.retryable) onError(error, given)
      return refusalOf(error, tool) as R
    }
  }
}

function checkOptions<T extends ToolOptions<never, never, Duration | undefined>>(options: T): T {
  if (typeof options !== 'object' || options === null) throw invalid('idempotentTool() needs { name, scope, key }')
  refuseUnknown(options, OPTIONS, 'idempotentTool()')
  if (typeof options.name !== 'string' || options.name === '')
    throw invalid('idempotentTool() needs the name of its tool')
  if (options.scope !== 'global' && typeof options.scope !== 'function')
    throw invalid(`scope must be a function of the call, such as ({ extra }) => extra.authInfo.extra.user, or 'global'`)
  if (typeof options.key !== 'function') throw invalid('key must be a function of the call, such as toolKey')
  optionalFunction('label', options.label)
  optionalFunction('onError', options.onError)
  return options
}

function missing(): never {
  const detail = 'The call has neither a key nor a conversation in its _meta'
  throw onceError('ONCE_KEY_MISSING', { detail })
}

/** Refuses what is no result of a tool, before the operation commits. */
function checked(result: unknown): ToolResult {
  if (!isToolResult(result))
    throw onceError('ONCE_ANSWER_INVALID', { detail: 'The handler of a tool must return { content: [...] }' })
  if (result.isError === true) throw new FailedResult(result)
  return result
}

/** A leased operation whose `commit` checks the result inside the last transaction. */
function checking<Tx, E extends Events>(op: LeasedOperation<Tx, E>): LeasedOperation<Tx, E> {
  const commit = (make: (op: Operation<Tx, E>) => unknown): Promise<unknown> =>
    op.commit(async (inner) => checked(await make(inner)))
  return Object.create(op, { commit: { value: commit, enumerable: true } }) as LeasedOperation<Tx, E>
}

function resultOf(read: () => unknown): ToolResult {
  try {
    return read() as ToolResult
  } catch (error) {
    if (isFinal(error)) return resultOfFinal(error)
    throw error
  }
}

/** Standard output belongs to the protocol when a server talks over stdio. The cause may quote the arguments. */
function report({ message }: OnceError, { tool }: { readonly tool: string }): void {
  console.error(`effectively-once: tool ${tool}: ${message}`)
}
