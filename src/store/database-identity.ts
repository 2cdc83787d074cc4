/** Which database answers. */
export interface DatabaseIdentity {
  /** Another one after each start of the server. */
  readonly server: string
  /** Another one after a promotion or a restore, which may have lost transactions. Empty: the first one. */
  readonly timeline: string
}
