/**
 * The claim as a function of the database: what takes 80 µs of the server's time as one statement with five parts takes
 * 35 µs so, and its parts see each other's work. Two of them: `claim` inside the operation's transaction, `lease` in a
 * statement that commits by itself.
 *
 * Never waits. Locks: two advisory try-locks until the end of the transaction (identity+fingerprint, then identity).
 * In this order an honest retry never sees the identity taken and its fingerprint free, which would be a 422, for good.
 * The price: of two other requests under a running key that come in the same moment, one may get a 409 before its 422.
 * Uniqueness rests on the primary key; the locks only make refusals quick and exact. Every statement of a volatile
 * function has a snapshot of its own under READ COMMITTED, so the record is read by one that is younger than the locks:
 * nobody is refused from an older one.
 *
 * Returns text, fields between bars: `token|day|xid` when the claim is won; else which locks were had (t or f), then the
 * record if there is one, then its answer if this is a retry that can be replayed: a replay takes one trip. `-` is null.
 * The answer's headers come last and may hold bars themselves.
 */
export function claimFunctionsSql(schema: string): readonly string[] {
  return [
    `create ${functionSql(schema, claimParts(FIRST_DEADLINE))}`,
    `create ${functionSql(schema, leaseParts(schema))}`,
  ]
}

/** What an operator is shown of a leased operation, and the claim that writes it down. Processes from before use theirs. */
export function notedClaimSql(schema: string): readonly string[] {
  return [
    `alter table ${schema}.record add column namespace text, add column route text, add column label text`,
    `create ${functionSql(schema, {
      ...leaseParts(schema, ', _owner text, _route text, _label text'),
      columns: ', namespace, route, label',
      values: ', _owner, _route, _label',
    })}`,
  ]
}

/** The same claim, whose deadline minds the limits that the owner of the database has set. */
export function limitedClaimSql(schema: string): readonly string[] {
  return [`create or replace ${functionSql(schema, claimParts(deadlineExpression('_deadline_ms')))}`]
}

/**
 * The claim of an atomic operation, for less. PL/pgSQL makes each expression ready anew in every transaction, so the way
 * of a fresh key has few and short ones; the others are met only by whoever needs them. It returns the token alone when the
 * claim is won: the day follows from it, and the transaction's number is a column beside it (claim.ts). Else as `claim`,
 * which stays for processes from before.
 */
export function freshClaimSql(schema: string): readonly string[] {
  return [
    `create function ${schema}.claim_atomic(${PARAMETERS}, _deadline_ms text) returns text language plpgsql as $$
declare
  _limit text;
  _won boolean;
  _at timestamptz;
  _token bigint;
  _day date;
  _answer text;
  _r record;
begin
  if _deadline_ms <> '0' then
    _limit := current_setting('transaction_timeout', true);
    if _limit = '0' then
      _limit := set_config('transaction_timeout', _deadline_ms, true);
    elsif _limit is null and current_setting('idle_in_transaction_session_timeout') = '0' and current_setting('statement_timeout') = '0' then
      _limit := set_config('idle_in_transaction_session_timeout', _deadline_ms, true) || set_config('statement_timeout', _deadline_ms, true);
    else
      _limit := ${deadlineExpression('_deadline_ms')};
    end if;
  end if;
  _won := case when pg_try_advisory_xact_lock(_fp_lock) then pg_try_advisory_xact_lock(_lock) end;
  if _won then
    _at := clock_timestamp();
    _token := date_part('epoch', _at) * 1000000;
    insert into ${schema}.record (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
    values (_id, _scope, _fp, _fp_version, 2, 1, _token, _token, _at + _replay_ms * interval '1 millisecond',
      _at + (_replay_ms + _gone_ms) * interval '1 millisecond')
    on conflict (id) do nothing;
    if found then
      return _token;
    end if;
  end if;${besideSql(schema, '_won is not null', 'coalesce(_won, false)')}
end $$`,
  ]
}

const PARAMETERS = `_fp_lock bigint, _lock bigint, _id uuid, _scope uuid, _fp uuid, _fp_version int4, _replay_ms float8, _gone_ms float8`

function leaseParts(schema: string, more = ''): Parts {
  return {
    signature: `lease(${PARAMETERS}, _lease_ms float8, _namespace text, _name text, _input text${more})`,
    before: '',
    state: 1,
    leaseUntil: `_at + _lease_ms * interval '1 millisecond'`,
    won: `
      if _name is not null then
        insert into ${schema}.recover (id, namespace, name, input) values (_id, _namespace, _name, _input)
        on conflict (id) do update set namespace = excluded.namespace, name = excluded.name, input = excluded.input;
      end if;`,
  }
}

function claimParts(deadline: string): Parts {
  return {
    signature: `claim(${PARAMETERS}, _deadline_ms text)`,
    before: `
  if _deadline_ms <> '0' then
    _set := ${deadline};
  end if;`,
    state: 2,
    leaseUntil: 'null',
    won: '',
  }
}

/** As the first migration has it. */
const FIRST_DEADLINE = `case when current_setting('server_version_num')::int4 >= 170000
    then set_config('transaction_timeout', _deadline_ms, true)
    else set_config('idle_in_transaction_session_timeout', _deadline_ms, true) || set_config('statement_timeout', _deadline_ms, true) end`

/**
 * The server ends the transaction at the deadline, whatever happens to the process. From version 17 on one setting does
 * it; before that, one for the time between statements and one for each statement. A lower limit that is there already
 * stays: it is somebody's decision. A higher one is running since BEGIN, and only turned off can it be set anew.
 */
export function deadlineExpression(ms: string): string {
  const off = `set_config('transaction_timeout', '0', true) || `
  return `case when current_setting('server_version_num')::int4 >= 170000
    then ${limited('transaction_timeout', ms, off)}
    else concat(${limited('idle_in_transaction_session_timeout', ms)}, ${limited('statement_timeout', ms)}) end`
}

function limited(name: string, ms: string, off = ''): string {
  return `case when current_setting('${name}') = '0' then set_config('${name}', ${ms}, true)
      when current_setting('${name}')::interval > (${ms} || 'ms')::interval then ${off}set_config('${name}', ${ms}, true) end`
}

interface Parts {
  readonly signature: string
  readonly before: string
  readonly state: 1 | 2
  readonly leaseUntil: string
  readonly won: string
  /** Of the record, beyond those of the first migration. */
  readonly columns?: string
  readonly values?: string
}

/** An atomic record is born completed: uncommitted means in progress, and it is never updated. */
function functionSql(
  schema: string,
  { signature, before, state, leaseUntil, won, columns = '', values = '' }: Parts,
): string {
  return `function ${schema}.${signature} returns text language plpgsql as $$
declare
  _set text;
  _ok boolean;
  _won boolean := false;
  _at timestamptz;
  _expires timestamptz;
  _token bigint;
  _day date;
  _answer text;
  _r ${schema}.record;
begin${before}
  _ok := pg_try_advisory_xact_lock(_fp_lock);
  if _ok then
    _won := pg_try_advisory_xact_lock(_lock);
  end if;
  if _won then
    _at := clock_timestamp();
    _token := date_part('epoch', _at) * 1000000;
    _expires := _at + _replay_ms * interval '1 millisecond';
    insert into ${schema}.record (id, scope, fp, fp_version, state, attempt, token, life, lease_until, expires_at, forget_at${columns})
    values (_id, _scope, _fp, _fp_version, ${state}, 1, _token, _token, ${leaseUntil}, _expires, _expires + _gone_ms * interval '1 millisecond'${values})
    on conflict (id) do nothing;
    if found then${won}
      return _token || '|' || (_expires at time zone 'utc')::date || '|' || pg_current_xact_id()::text;
    end if;
  end if;${besideSql(schema, '_ok', '_won')}
end $$`
}

/** The claim was not won: what there is instead. `ok`: the first lock was had. `won`: both were. */
function besideSql(schema: string, ok: string, won: string): string {
  return `
  select * into _r from ${schema}.record r where r.id = _id;
  if not found then
    return concat_ws('|', ${ok}, ${won});
  end if;
  _at := clock_timestamp();
  _day := (_r.expires_at at time zone 'utc')::date;
  if _r.state = 2 and _r.fp = _fp and _r.expires_at > _at then
    select concat_ws('|', a.status, a.kept, coalesce(encode(a.body, 'base64'), '-'), a.headers) into _answer
      from ${schema}.answer a where a.id = _id and a.day = _day and a.token = _r.token;
  end if;
  return concat_ws('|', ${ok}, ${won}, _r.state, _r.fp, _r.fp_version, _r.token, _r.life, _r.attempt,
    coalesce((date_part('epoch', _r.lease_until - _at) * 1000)::text, '-'), date_part('epoch', _r.expires_at - _at) * 1000,
    date_part('epoch', _r.forget_at - _at) * 1000, _day, _answer);`
}
