import { onceError } from '../errors.ts'

export interface FinalResponse {
  /** 400 to 499. */
  status: number
  body?: unknown
  headers?: readonly (readonly [name: string, value: string])[]
}

/**
 * A final refusal: `throw final({ status: 402, body: … })`. Rows and events roll back, the refusal alone is stored, and
 * every retry gets the same one.
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
  if (!Number.isInteger(response?.status) || response.status < 400 || response.status > 499) {
    throw onceError('ONCE_OPTION_INVALID', { detail: 'final() needs a status from 400 to 499' })
  }
  return new Final(response)
}

export function isFinal(error: unknown): error is Final {
  return (error as Partial<Final> | null)?.name === 'Final' && typeof (error as Partial<Final>).status === 'number'
}
