import { expect, it } from 'vitest'
import { openStore } from './open-store.ts'

it.each(['"postgres://ann:geheim@h/db"', 'jdbc:postgresql://ann:geheim@h/db', 'postgres//ann:geheim@h/db'])(
  'a database URL that is written wrongly is refused without its password: %s',
  async (url) => {
    const opened = Promise.resolve().then(() => openStore({ url, schema: undefined, command: 'migrate', values: {} }))
    const error = (await opened.catch((reason: unknown) => reason)) as Error
    expect(error.name).toBe('UsageError')
    expect(error.message).not.toContain('geheim')
  },
)

it.each(['redis://ann:geheim@h:6379', 'rediss://ann:geheim@h'])(
  'a Redis store is refused with what to use instead: %s',
  async (url) => {
    const opened = Promise.resolve().then(() => openStore({ url, schema: undefined, command: 'status', values: {} }))
    const error = (await opened.catch((reason: unknown) => reason)) as Error
    expect(error.name).toBe('UsageError')
    expect(error.message).toMatch(/^the command line does not open a redisStore; use once\.deadLetters, once\.redrive/)
    expect(error.message).not.toContain('geheim')
  },
)

it('a file that is not there is not made, except by migrate', async () => {
  const opened = openStore({ url: 'file:nowhere/none.db', schema: undefined, command: 'status', values: {} })
  await expect(opened).rejects.toMatchObject({ code: 'ONCE_NOT_MIGRATED' })
})
