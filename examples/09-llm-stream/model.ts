import { setTimeout as pass } from 'node:timers/promises'

/** In place of a language model: it continues an answer token by token, and each token costs money. */
export async function* complete(prompt: string, soFar: string, signal: AbortSignal): AsyncGenerator<string> {
  const whole = `You asked "${prompt}". Once upon a time there was a payment that was made exactly once.`
  const tokens = whole.slice(soFar.length).match(/\S+\s*/g) ?? []
  for (const token of tokens) {
    await pass(5, undefined, { signal })
    yield token
  }
}
