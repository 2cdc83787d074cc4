import type pg from 'pg'
import type { Charge, Charged } from '../../support/charge.ts'

/** What a peer's server is given: the charge is the same prepared transaction as in the bare handler. */
export interface PeerMeans {
  readonly databaseUrl: string
  readonly redisUrl: string
  readonly pool: pg.Pool
  charge(charge: Charge): Promise<Charged>
}

/** Listens, and answers POST /charge. */
export interface PeerServer {
  readonly port: number
  /** Set where the peer has database connections that nobody else can reach. */
  readonly hasOwnConnections?: boolean
}

export type StartPeer = (means: PeerMeans) => Promise<PeerServer>
