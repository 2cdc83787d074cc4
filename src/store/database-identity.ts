/** Identifies the database that answers. */
export interface DatabaseIdentity {
  /** Changes with each start of the server. */
  readonly server: string
  /** Changes with a promotion or a restore, which may have lost transactions. Empty: the first timeline. */
  readonly timeline: string
}
