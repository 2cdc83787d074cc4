/** Identifies the database that answers. */
export interface DatabaseIdentity {
  /** Changes with each start of the server. */
  readonly server: string
  /** Changes with a promotion or a restore, which may have lost transactions. Empty: the first timeline. */
  readonly timeline: string
  /** Tells a database from a copy of it, such as a copied file or a database made from a template. Absent: not known */
  readonly database?: string
}
