import { expect, it } from 'vitest'
import { describeAlone } from './support/describe-broker.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

describeAlone('what a consumer relies on, Redis', 'redis', (own) => {
  for (const { name, takesServerAway, run } of sourceCases(() => sourceTarget('redis', own.server))) {
    it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
  }
})
