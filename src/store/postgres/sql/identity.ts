/** Identifies a server by its start time, so a promoted, restored or restarted server counts as another one. */
export const SERVER = '(extract(epoch from pg_postmaster_start_time()) * 1000000)::int8::text'

const TIMELINE = `ltrim(left(pg_walfile_name(pg_current_wal_lsn()), 8), '0')`

/** Fails on a standby, which has no timeline of its own before it is promoted. */
export const IDENTITY_SQL: string = `
select ${SERVER} as server, ${TIMELINE} as timeline,
       (select c.system_identifier || '-' || d.oid from pg_control_system() c, pg_database d where d.datname = current_database()) as database`

/** For roles that may not read the control file. */
export const TIMELINE_SQL: string = `select ${SERVER} as server, ${TIMELINE} as timeline`

/** For databases that speak PostgreSQL's protocol without these functions. */
export const SERVER_SQL: string = `select ${SERVER} as server`
