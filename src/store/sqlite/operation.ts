import { NOW } from './migrations.ts'

/** The state in the operator's words. `r` is the record. */
export const STATE: string = `case when r.state = 2 then 'completed'
  when r.state = 3 or r.lease_until <= ${NOW} and r.expires_at <= ${NOW} then 'unknown'
  when r.lease_until <= ${NOW} then 'abandoned' else 'running' end`

/** The number of a life is the time at which it began, in microseconds. */
const AGE_MS = `(${NOW} - r.life / 1000)`

const COLUMNS = `r.id, ${STATE} as state, r.namespace, r.route, r.label, r.attempt, cast(r.life as text) as life,
  ${AGE_MS} as age_ms, iif(r.state = 2, null, r.lease_until - ${NOW}) as lease_left_ms, c.name as recover`
const FROM = `effectively_once_record r left join effectively_once_recover c on c.id = r.id`

/** ?1 namespace, ?2 state, ?3 route, ?4 label, ?5 scope (null: any), ?6 older than ms, ?7 limit */
export const LIST_OPERATIONS: string = `select ${COLUMNS} from ${FROM}
  where r.state <> 2 and (?1 is null or r.namespace is null or r.namespace = ?1) and (?2 is null or ?2 = ${STATE})
    and (?3 is null or r.route = ?3) and (?4 is null or r.label = ?4) and (?5 is null or r.scope = ?5) and ${AGE_MS} >= ?6
  order by r.life, r.id limit ?7`

export const SHOW_OPERATION: string = `select ${COLUMNS}, c.input from ${FROM} where r.id = ?`
