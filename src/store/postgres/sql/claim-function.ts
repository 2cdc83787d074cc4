/**
 * The claim is a function in the database. As one statement with five parts it took 80 µs of the server's time; the
 * function takes 35 µs, and its statements see each other's work. There are two functions: `claim` runs inside the
 * operation's transaction, `lease` in a statement that commits by itself.
 *
 * The claim never waits. Locks: two advisory try-locks until the end of the transaction, first identity and
 * fingerprint, then identity. In this order, a retry of the same request never finds its identity locked and its
 * fingerprint free: that would be a permanent 422. The cost: if two different requests come at the same moment under a
 * running key, one may get a 409 before its 422. The primary key guarantees uniqueness; the locks only make refusals
 * quick and exact. Under READ COMMITTED, every statement of a volatile function has its own snapshot. So the record is
 * read after the locks were tried, and no refusal relies on an older snapshot.
 *
 * Returns text with fields between bars: `token|day|xid` if the claim is won. Otherwise it returns which locks were
 * taken (t or f), then the record if there is one. For a retry that can be replayed, the answer follows, so a replay
 * takes one round trip. `-` is null. The answer's headers come last, because they may contain bars.
 */
export function claimFunctionsSql(schema: string): readonly string[] {
  return [
    `create ${functionSql(schema, claimParts(FIRST_DEADLINE))}`,
    `create ${functionSql(schema, leaseParts(schema))}`,
  ]
}

/**
 * Adds the columns that show a leased operation to operators, and a claim that writes them. Older processes use the
 * older function.
 */
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

/** The same claim, but its deadline respects lower limits that the owner of the database has set. */
export function limitedClaimSql(schema: string): readonly string[] {
  return [`create or replace ${functionSql(schema, claimParts(deadlineExpression('_deadline_ms')))}`]
}

/**
 * A cheaper claim for atomic operations. PL/pgSQL prepares each expression again in every transaction, so the path of a
 * new key has few and short expressions. If the claim is won, it returns only the token: the day follows from the
 * token, and claim.ts reads the transaction's number as a column. Otherwise it returns the same text as `claim`, which
 * stays for older processes.
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

/** The deadline of the first migration. */
const FIRST_DEADLINE = `case when current_setting('server_version_num')::int4 >= 170000
    then set_config('transaction_timeout', _deadline_ms, true)
    else set_config('idle_in_transaction_session_timeout', _deadline_ms, true) || set_config('statement_timeout', _deadline_ms, true) end`

/**
 * The server ends the transaction at the deadline, even if the process hangs. From PostgreSQL 17 on, one setting does
 * this. Before, one setting limits the time between statements, and one each statement. A lower limit stays, because
 * the owner of the database has chosen it. A higher `transaction_timeout` has been running since BEGIN, and must be
 * turned off before it can be set.
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
  /** Columns of the record that later migrations added. */
  readonly columns?: string
  readonly values?: string
}

/**
 * An atomic record is inserted as completed and never updated. While its transaction is open, the operation is in
 * progress.
 */
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

/** The claim was not won: returns the existing record. `ok`: the first lock was taken. `won`: both were. */
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
