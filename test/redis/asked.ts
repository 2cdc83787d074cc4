/** The cases of the contract that a store with leases alone can be asked. The others need parts that Redis does not have. */
export const ASKED_OF_LEASES: readonly string[] = [
  'the answer of a leased operation completes it, and is returned byte for byte',
  'an answer that is not kept still completes its record',
  'a claim of an answered key returns its record and fingerprint, whatever the request',
  'a record outlives its answer until it is forgotten, and its token is never used again',
  'a lease is visible at once, with its remaining time',
  'a lapsed lease is taken over once, with a higher token',
  'an operation that was completed meanwhile is not taken over',
  'one of two concurrent takeovers wins',
  'an attempt that lost its lease writes nothing',
  'a heartbeat renews the leases of its process, and returns their ids',
  'after a release the next attempt begins at once',
  'a settled operation keeps its retention if that is longer',
  'a refusal by the holder is final',
  'an expired record is leased with a new life',
  'steps are recorded for each life: first started, then done',
  'an operator may have a call repeated, or end the operation',
]
