import { expect, it } from 'vitest'
import { callbackDriver } from './callback-transaction.ts'

const NOTHING = { name: '', text: 'select 1', values: [] }

it('what is on its way through a handle is waited for, and a handle that was taken back is then forgotten', async () => {
  let asked = 0
  let onItsWay: Promise<unknown> = Promise.resolve()
  const driver = callbackDriver<{ name: string }>({
    name: 'toy',
    transaction: (callback) => callback({ name: 'root' }),
    query: async () => [],
    queryIn: async () => [],
    revocable() {
      const quiet = (): Promise<unknown> => {
        asked += 1
        return onItsWay
      }
      return { tx: { name: 'handle' }, revoke: () => {}, quiet }
    },
    isTransaction: () => true,
  })
  const { connection } = await driver.begin(NOTHING)
  connection.revocable()
  let arrive: (value: unknown) => void = () => {}
  onItsWay = new Promise((resolve) => (arrive = resolve))
  for (let n = 0; n < 5; n++) connection.revocable().revoke()
  const waiting = connection.quiet?.().then(() => 'quiet')
  expect(await Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 10, 'waits'))])).toBe('waits')
  arrive('there')
  expect(await waiting).toBe('quiet')
  asked = 0
  await connection.quiet?.()
  expect(asked).toBe(1)
})
