import { invalid } from '../options.ts'

export interface FinalResponse {
  /** 400 to 499. */
  status: number
  body?: unknown
  headers?: readonly (readonly [name: string, value: string])[]
}

/**
 * A final refusal: `throw final({ status: 402, body: … })`. Rows and events roll back, only the refusal is stored, and
 * every retry gets the same refusal.
 */
export class Final extends Error {
  override readonly name: string = 'Final'
  readonly status: number
  readonly body: unknown
  readonly headers: readonly (readonly [name: string, value: string])[]

  constructor(response: FinalResponse) {
    super(`refused with status ${response.status}`)
    this.status = response.status
    this.body = response.body
    this.headers = response.headers ?? []
  }
}

export function final(response: FinalResponse): Final {
  if (!isRefusal(response?.status)) {
    throw invalid('final() needs a status from 400 to 499')
  }
  if (response.headers !== undefined && !isHeaders(response.headers)) {
    throw invalid("final() takes headers as [['name', 'value']]")
  }
  return new Final(response)
}

/** Checks the shape, not the class, because a process may load two copies of the package. */
export function isFinal(error: unknown): error is Final {
  const candidate = error as Partial<Final> | null | undefined
  try {
    return candidate?.name === 'Final' && isRefusal(candidate.status) && isHeaders(candidate.headers)
  } catch {
    return false
  }
}

function isRefusal(status: unknown): boolean {
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 499
}

function isHeaders(headers: unknown): boolean {
  const isText = (part: unknown): boolean => typeof part === 'string'
  return (
    Array.isArray(headers) && headers.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isText))
  )
}
