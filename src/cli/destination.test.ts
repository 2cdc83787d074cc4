import { expect, it } from 'vitest'
import { destinationOf } from './destination.ts'

function refusalOf(to: string): string {
  try {
    destinationOf(to, {})
    return ''
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

it.each([
  'natss://ann:geheim@host:4222?stream=s',
  'kafka+ssl://ann:geheim@host?topic=t',
  'nats://ann:ab/geheim@host:4222?stream=s',
  'nats://ann:geheim%zz@host:4222?stream=s',
  'redis://ann:geheim@host?stream=s&tls=true',
  'nats://ann:geheim@host?stream=s&tls=yes',
  'ann:geheim@host',
])('a refused --to shows no part of its password: %s', (to) => {
  const refusal = refusalOf(to)
  expect(refusal).toMatch(/^UsageError: /)
  expect(refusal).not.toMatch(/geheim|ann|:ab/)
})

it('a destination that can be used is opened later', () => {
  expect(refusalOf('nats://ann:a%3Ab@one:4222,two:4222?stream=s&tls=true')).toBe('')
})

it('an address of the web is a webhook, signed with the secret of the environment', async () => {
  const to = 'https://shop.example/hooks'
  const values = { 'secret-env': 'TEST_WEBHOOK_SECRET' }
  expect(() => destinationOf(to, values)).toThrow('TEST_WEBHOOK_SECRET must hold')
  process.env['TEST_WEBHOOK_SECRET'] = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`
  try {
    const { sink, close } = await destinationOf(to, values)()
    expect(sink.name).toBe(`webhook ${to}`)
    await close()
  } finally {
    delete process.env['TEST_WEBHOOK_SECRET']
  }
})
