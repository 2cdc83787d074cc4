import { expect, it } from 'vitest'
import { namespaceOf } from './namespace.ts'

const store = {
  namespaces: {
    list: async () => [
      { no: 1, name: 'shop' },
      { no: 2, name: 'bank' },
    ],
  } as never,
}

it('the namespace that is named, or none', async () => {
  for (const command of ['relay', 'operations list']) {
    expect(await namespaceOf(store, { command, values: { namespace: 'bank' } })).toEqual({ no: 2, name: 'bank' })
  }
  const none = namespaceOf(store, { command: 'relay', values: { namespace: 'nobody' } })
  await expect(none).rejects.toThrow("there is no namespace 'nobody'")
})
