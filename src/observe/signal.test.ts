import { expect, it } from 'vitest'
import { advise, shortId, type Signal } from './signal.ts'

it('a signal shows the beginning of an identity alone', () => {
  expect(shortId('0123456789abcdef-rest')).toBe('01234567')
})

it('advice is given once to each observer', () => {
  const heard: Signal[] = []
  const observe = (signal: Signal): void => void heard.push(signal)
  for (const message of ['slow', 'slow', 'small', 'slow']) advise(observe, 'relay', message)
  expect(heard).toEqual([
    { kind: 'advice', task: 'relay', message: 'slow' },
    { kind: 'advice', task: 'relay', message: 'small' },
  ])
  const others: Signal[] = []
  advise((signal) => void others.push(signal), 'consumer', 'slow')
  expect(others).toEqual([{ kind: 'advice', task: 'consumer', message: 'slow' }])
})
