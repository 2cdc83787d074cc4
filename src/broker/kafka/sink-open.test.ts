import { expect, test } from 'vitest'
import type { KafkaProducer } from './client.ts'
import { kafkaSink } from './sink.ts'

test('a sink whose topic is a function asks the server when it is opened', async () => {
  let isUp = false
  const producer: KafkaProducer = {
    send: async () => {},
    beginTransaction: () => Promise.reject(new Error('not here')),
    async metadata() {
      if (!isUp) throw new Error('nobody is there')
      return { topics: new Map() }
    },
    close: async () => {},
  }
  const sink = kafkaSink(() => producer, { topic: ({ type }) => type, name: 'by function' })
  expect(await sink.open?.().catch(String)).toBe('Error: nobody is there')
  isUp = true
  expect(await sink.open?.()).toEqual(['topic is a function, so its topics were not checked'])
})
