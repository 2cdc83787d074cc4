import { expect, it } from 'vitest'
import { onceError } from '../errors.ts'
import type { Signal } from '../observe/signal.ts'
import { recoverLapsed } from './recover.ts'

it('an operation that another process finishes is no trouble, and one that fails is', async () => {
  const signals: Signal[] = []
  const lapsed = async (): Promise<unknown> => [{ name: 'quicker' }, { name: 'fails' }, { name: 'works' }]
  const settings = { namespace: 'test', observe: (signal: Signal) => void signals.push(signal) }
  const failure = new Error('down')
  const recoverers = new Map([
    ['quicker', () => Promise.reject(onceError('ONCE_IN_FLIGHT'))],
    ['fails', () => Promise.reject(failure)],
    ['works', async () => {}],
  ])
  const core = { store: { leases: { lapsed } } as never, settings, closing: false }
  expect(await recoverLapsed(core, recoverers, 10)).toEqual({ finished: 1, left: 2 })
  expect(signals).toEqual([{ kind: 'troubled', task: 'recover', error: failure }])
})
