/**
 * The columns of a record in every statement that reads it. They are text, int4 or float8. Times are distances from the
 * database's clock. `r` is the record's alias.
 */
export const RECORD_COLUMNS = `
    r.state::int4 as state, r.fp::text as fp, r.fp_version::int4 as fp_version, r.token::text as token, r.life::text as life,
    r.attempt::int4 as attempt,
    date_part('epoch', r.lease_until - clock_timestamp()) * 1000 as lease_left_ms,
    date_part('epoch', r.expires_at - clock_timestamp()) * 1000 as expires_in_ms,
    date_part('epoch', r.forget_at - clock_timestamp()) * 1000 as forget_in_ms,
    (r.expires_at at time zone 'utc')::date::text as day`
