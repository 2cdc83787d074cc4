/** A call that has not ended after this time waits for another transaction. */
const WAITING_MS = 100
const SLOW_MS = 10_000

interface Plays<Op> {
  play(op: Op): Promise<unknown>
  /** Ends every open transaction, so that waiting calls can continue. */
  letGo(): Promise<void>
  state(): Promise<unknown>
}

/**
 * Plays the same script on the model and on the real store. Returns the results of each, call by call, and its final
 * state.
 */
export async function besideEachOther<Op>(
  players: readonly [model: Plays<Op>, real: Plays<Op>],
  script: readonly Op[],
  /** Transactions stay open between calls, so a call may have to wait. Either both stores wait, or neither does. */
  waits = true,
): Promise<readonly [model: readonly unknown[], real: readonly unknown[]]> {
  const told: [unknown[], unknown[]] = [[], []]
  try {
    for (const op of script) {
      if (waits) await playBoth(players, op, told)
      else for (const [i, player] of players.entries()) told[i]!.push([op, await player.play(op)])
    }
  } finally {
    for (const player of players) await player.letGo()
  }
  for (const [i, player] of players.entries()) told[i]!.push(['at the end', await player.state()])
  return told
}

async function playBoth<Op>(
  players: readonly [Plays<Op>, Plays<Op>],
  op: Op,
  told: readonly [unknown[], unknown[]],
): Promise<void> {
  const results = [players[0].play(op), players[1].play(op)] as const
  const inModel = await endsWithin(results[0], WAITING_MS)
  // The model is fast. If its call has ended, the server gets more time. If the model waits, the server must wait too.
  const onServer = await endsWithin(results[1], inModel ? SLOW_MS : WAITING_MS)
  if (!inModel || !onServer) for (const player of players) await player.letGo()
  told[0].push([op, inModel ? 'at once' : 'waited', await results[0]])
  told[1].push([op, onServer ? 'at once' : 'waited', await results[1]])
}

async function endsWithin(result: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<false>((resolve) => (timer = setTimeout(resolve, ms, false)))
  const ended = await Promise.race([result.then(() => true as const), late])
  clearTimeout(timer)
  return ended
}
