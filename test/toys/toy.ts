/** One addition to the package, as docs/contributing.md describes it. */
export interface Toy {
  /** New files, in folders of their own kind. */
  readonly files: Readonly<Record<string, string>>
  /** Its line in the list of subpaths. */
  readonly subpath: string
  /** Rows in files that every addition of its kind shares: after this text comes the row. */
  readonly rows: readonly { readonly file: string; readonly after: string; readonly row: string }[]
  /** Files that its docs page shows it on. */
  readonly page: string
  /** The tests that prove it, with the part of their names. */
  readonly proof: { readonly file: string; readonly named?: string }
}
