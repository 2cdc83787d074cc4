/** What one operation costs. All but the last are counted; the last is measured beside the bare version. */
export interface Entry {
  readonly statements: number
  readonly trips: number
  readonly rows: number
  /** Without full-page images. */
  readonly walBytes: number
  /** CPU of process and server, to that of the bare version with the same event, prepared, in the same run. */
  readonly cpuToBare: number
}

export type Entries = Readonly<Record<string, Entry>>

/** The file in the repository: by the major version of PostgreSQL, and `sqlite`. */
export type Ledger = Readonly<Record<string, Entries>>

export interface Growth {
  readonly operation: string
  readonly what: keyof Entry
  readonly kept: number
  readonly now: number
}

/** How much more is still the same. Counts are told with two decimals. */
const MORE: Readonly<Record<keyof Entry, { readonly factor: number; readonly slack: number }>> = {
  statements: { factor: 1, slack: 0.005 },
  trips: { factor: 1, slack: 0.005 },
  rows: { factor: 1, slack: 0.005 },
  walBytes: { factor: 1.05, slack: 0 },
  cpuToBare: { factor: 1.15, slack: 0 },
}
const WHATS = Object.keys(MORE) as (keyof Entry)[]

/** Everything that costs more than the ledger says. An operation that one of both does not know is an error. */
export function growths(kept: Entries, now: Entries): Growth[] {
  const names = new Set([...Object.keys(kept), ...Object.keys(now)])
  return [...names].flatMap((operation) => {
    const [before, after] = [kept[operation], now[operation]]
    if (!before) throw new Error(`the ledger has no ${operation}: npm run ledger -- --write`)
    if (!after) throw new Error(`${operation} is in the ledger and was not measured: npm run ledger -- --write`)
    return WHATS.filter((what) => !(after[what] <= before[what] * MORE[what].factor + MORE[what].slack)).map(
      (what) => ({ operation, what, kept: before[what], now: after[what] }),
    )
  })
}

export function asText({ operation, what, kept, now }: Growth): string {
  const percent = kept === 0 ? 'new' : `+${Math.round((now / kept - 1) * 100)} %`
  return `${operation}: ${what} ${kept} before, ${now} now (${percent})`
}
