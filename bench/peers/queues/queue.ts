import type pg from 'pg'

/** Publishes an event or job with each charge, and consumes each of them once by writing one receipt. */
export interface Queue {
  /** One transaction: the charge, and what is published with it. */
  publish(): Promise<unknown>
  /** Until so many more receipts are written and acknowledged. */
  consume(count: number): Promise<void>
  readonly pools: readonly pg.Pool[]
  /** Set where it has connections beside those pools. */
  readonly hasOwnConnections?: boolean
  close(): Promise<void>
}

/** `url`: a database with the business tables. */
export type OpenQueue = (url: string) => Promise<Queue>

/** Of each pool. All queues are connected to one server, which takes a hundred connections. */
export const POOL = { max: 10 }
export const RECEIPT_TABLE =
  'create table receipt (id bigint generated always as identity primary key, charge bigint not null, account text not null)'
export const INSERT_RECEIPT = 'insert into receipt (charge, account) values ($1, $2)'

/** Counts what is done, and tells when enough is. */
export class Countdown {
  private done = 0
  private wanted = Infinity
  private reached: () => void = () => {}

  add(count: number): void {
    this.done += count
    if (this.done >= this.wanted) this.reached()
  }

  /** Call it before the work starts. */
  until(count: number): Promise<void> {
    this.done = 0
    this.wanted = count
    return new Promise((resolve) => (this.reached = resolve))
  }
}
