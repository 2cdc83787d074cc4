import { openPlayground } from './open.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Opens the playground, prints its address, and runs until the process is told to end. */
export async function showPlayground(write: (text: string) => void): Promise<void> {
  const told = new Promise<void>((resolve) => {
    for (const signal of SIGNALS) process.on(signal, () => resolve())
  })
  const opened = await openPlayground()
  write(`   The playground is open: ${opened.url}\n   Ctrl-C ends it.\n`)
  await told
  await opened.close()
  write('\n')
  for (const signal of SIGNALS) process.removeAllListeners(signal)
}
