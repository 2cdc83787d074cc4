import { expect, test } from 'vitest'
import { messagesOf } from './readable-error.ts'

test.each([
  [
    new TypeError('fetch failed', { cause: new Error('getaddrinfo ENOTFOUND x.invalid') }),
    'fetch failed: getaddrinfo ENOTFOUND x.invalid',
  ],
  [
    new AggregateError([new Error('connect ECONNREFUSED ::1:1')], 'metadata failed 3 times.'),
    'metadata failed 3 times: connect ECONNREFUSED ::1:1',
  ],
  [new Error('fetch failed', { cause: new AggregateError([new Error('no route')], '') }), 'fetch failed: no route'],
  [new Error('the sink cannot send: down', { cause: new Error('down') }), 'the sink cannot send: down'],
  [new Error('first line\nsecond line'), 'first line'],
  ['a text', 'a text'],
  [undefined, ''],
])('messages of %s', (error, text) => {
  expect(messagesOf(error)).toBe(text)
})
