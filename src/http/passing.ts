import { onceError } from '../errors.ts'
import type { AnyOperation } from './exchange.ts'

/** What a handler gets when its method is not protected: there is no key, and so no transaction. */
export function passingOperation(method: string): AnyOperation {
  const refuse = (): never => {
    throw onceError('ONCE_UNSUPPORTED', {
      detail: `${method} is not a protected method of this route, so the operation has no tx and no events`,
    })
  }
  const parts = ['tx', 'publish', 'step', 'commit', 'id', 'key', 'scope', 'attempt', 'signal']
  const operation = {}
  for (const part of parts) Object.defineProperty(operation, part, { get: refuse, enumerable: true })
  return operation as AnyOperation
}
