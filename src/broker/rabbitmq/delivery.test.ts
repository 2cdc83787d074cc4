import { expect, test } from 'vitest'
import type { RabbitmqChannel, RabbitmqMessage } from './client.ts'
import { bodyOf, copiedHeaders, DELIVERED_BEFORE, RabbitmqDelivery } from './delivery.ts'

function delivered(
  of: { redelivered?: boolean; headers?: Record<string, unknown> },
  again?: boolean,
): RabbitmqDelivery {
  const message = { body: '{}', redelivered: false, ...of } as unknown as RabbitmqMessage
  return new RabbitmqDelivery(message, {} as RabbitmqChannel, 'queue', again)
}

const seen = ({ delivered: times, redelivered }: RabbitmqDelivery): unknown => [times, redelivered]

test('a classic queue says only whether it is the first delivery', () => {
  expect(seen(delivered({}))).toEqual([1, false])
  expect(seen(delivered({ redelivered: true }))).toEqual([2, true])
})

test('a quorum queue counts', () => {
  expect(seen(delivered({ redelivered: true, headers: { 'x-delivery-count': 3 } }))).toEqual([4, true])
})

test('a copy counts the deliveries of those before it, and takes the count of its queue from none', () => {
  expect(seen(delivered({ headers: { [DELIVERED_BEFORE]: 2 } }))).toEqual([3, true])
  const again = delivered({ redelivered: true, headers: { [DELIVERED_BEFORE]: 2, mine: 'x' } })
  expect(seen(again)).toEqual([4, true])
  expect(copiedHeaders(again)).toEqual({ [DELIVERED_BEFORE]: 4, mine: 'x' })
  const counted = delivered({ redelivered: true, headers: { 'x-delivery-count': 1 } })
  expect(copiedHeaders(counted)).toEqual({ [DELIVERED_BEFORE]: 2 })
})

test('what is given back to its own reader comes again', () => {
  expect(seen(delivered({}, true))).toEqual([1, true])
})

test.each([
  { contentType: 'application/json', body: 'a text', is: '"a text"' },
  { contentType: 'application/json', body: null, is: 'null' },
  { contentType: 'text/plain', body: 'a text', is: 'a text' },
])('a body is what was sent, also where the client has parsed it: %j', ({ contentType, body, is }) => {
  const message = { body, contentType, redelivered: false } as unknown as RabbitmqMessage
  expect(bodyOf(message)).toBe(is)
})
