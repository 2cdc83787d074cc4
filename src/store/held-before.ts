interface Place {
  readonly shard: number
  readonly seq: number
}

export interface HeldBeforeParams {
  readonly destination: string
  readonly events: readonly (Place & { readonly aggregateId: string })[]
}

/** Finds out whether an ordered event waits for its predecessor in vain. */
export interface HeldBefore {
  /** Returns those events for which the destination holds an earlier event of the same aggregate. */
  heldBefore(params: HeldBeforeParams): Promise<readonly Place[]>
}
