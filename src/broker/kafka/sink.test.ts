import { expect, it } from 'vitest'
import { kafkaSink } from './sink.ts'

const make = (): never => {
  throw new Error('no producer is needed yet')
}

it('names its destination after the topic, or as it is told', () => {
  expect(kafkaSink(make, { topic: 'shop.payments-1_a' })).toMatchObject({ name: 'kafka shop.payments-1_a' })
  expect(kafkaSink(make, { topic: 'payments', name: 'pay' })).toMatchObject({ name: 'pay', system: 'kafka' })
})

it.each(['', 'a b', ' a', 'a ', 'a/b', 'ä', 'x'.repeat(250)])(`'%s' is no topic`, (topic) => {
  expect(() => kafkaSink(make, { topic })).toThrow('ONCE_OPTION_INVALID')
  expect(() => kafkaSink(make, { topic: { 'order.placed': topic }, name: 'orders' })).toThrow('ONCE_OPTION_INVALID')
})
