import { onceError } from '../errors.ts'
import { KEY_BYTES_MAX, NAMESPACE_BYTES_MAX, SCOPE_BYTES_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { isStorable } from '../platform/storable.ts'

/**
 * Checks a key, from a header or from `run()`: 1 to 255 printable ASCII characters, without a space at either end.
 * Natural keys may contain spaces. At the ends they get lost, because headers are trimmed, and two keys would become
 * one. Errors never repeat the key, because it may be hostile or secret.
 */
export function checkKey(key: unknown): string {
  if (typeof key !== 'string') throw keyInvalid(`A key is a string, not ${nameOf(key)}`)
  if (key.length === 0) throw keyInvalid('The idempotency key is empty')
  // Every allowed character is one byte, so the length in characters is the length in bytes.
  if (key.length > KEY_BYTES_MAX) throw keyInvalid(`The idempotency key is longer than ${KEY_BYTES_MAX} bytes`)
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i)
    if (unit < 0x20 || unit > 0x7e) throw keyInvalid(`The idempotency key is not printable ASCII at position ${i}`)
  }
  if (key.startsWith(' ') || key.endsWith(' ')) throw keyInvalid('The idempotency key starts or ends with a space')
  return key
}

/** Texts that `${undefined}` and similar mistakes produce: one scope for all callers who are not logged in. */
const MISTAKES: ReadonlySet<string> = new Set(['undefined', 'null', 'NaN', '[object Object]'])

/**
 * Checks the owner of the key. An empty scope has no default, because one user could then replay another's answer.
 * 'global' is a scope like any other. A program whose other scopes are bare user ids shares it with a user whose id is
 * "global", and should use `user:${id}`.
 */
export function checkScope(scope: unknown): string {
  if (typeof scope !== 'string' || scope === '') throw scopeEmpty(scope === '' ? 'empty' : nameOf(scope))
  if (MISTAKES.has(scope)) throw scopeEmpty(`the text "${scope}"`)
  if (isOver(scope, SCOPE_BYTES_MAX)) throw invalid(`A scope is at most ${SCOPE_BYTES_MAX} bytes long`)
  return scope
}

/** Checks the name of the service that owns the keys. */
export function checkNamespace(namespace: unknown): string {
  if (typeof namespace !== 'string' || namespace === '') throw invalid('namespace must be a non-empty string')
  if (!isStorable(namespace)) throw invalid('namespace has a NUL character or a lone surrogate')
  if (isOver(namespace, NAMESPACE_BYTES_MAX)) {
    throw invalid(`A namespace is at most ${NAMESPACE_BYTES_MAX} bytes long`)
  }
  return namespace
}

/** A UTF-16 unit is at most three bytes of UTF-8, so most texts need no exact count. */
function isOver(text: string, bytesMax: number): boolean {
  if (text.length * 3 <= bytesMax) return false
  return text.length > bytesMax || new TextEncoder().encode(text).length > bytesMax
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function scopeEmpty(found: string): Error {
  const detail = `scope is ${found}; one user could replay another's answer. Return a string or set 'global'`
  return onceError('ONCE_SCOPE_EMPTY', { detail })
}

function keyInvalid(detail: string): Error {
  return onceError('ONCE_KEY_INVALID', { detail })
}
