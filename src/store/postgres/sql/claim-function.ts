import { RECORD_COLUMNS } from './record-columns.ts'

/**
 * The claim as a function of the database: what takes 80 µs of the server's time as one statement with five parts takes
 * 35 µs so, and its parts see each other's work. Two of them: `claim` inside the operation's transaction, `lease` in a
 * statement that commits by itself.
 *
 * Never waits. Locks: two advisory try-locks until the end of the transaction (identity, then identity+fingerprint). A
 * loser only tests the second and lets go at once: if it kept it, two refused duplicates would take each other for the
 * running one, and a 422 would come out as a 409.
 * Uniqueness rests on the primary key; the locks only make refusals quick and exact. Every statement of a volatile
 * function has a snapshot of its own under READ COMMITTED, so the record is read by one that is younger than the locks:
 * nobody is refused from an older one.
 *
 * Returns `token|day|xid` when the claim is won; else, as JSON, which locks were had, the record and, for a retry that
 * can be replayed, its answer: a replay takes one trip.
 */
export function claimFunctionsSql(schema: string): readonly string[] {
  const parameters = `_fp_lock bigint, _lock bigint, _id uuid, _scope uuid, _fp uuid, _fp_version int4, _replay_ms float8, _gone_ms float8`
  return [
    functionSql(schema, {
      signature: `claim(${parameters}, _deadline_ms text)`,
      before: `
  if _deadline_ms <> '0' then
    _set := ${deadlineExpression('_deadline_ms')};
  end if;`,
      state: 2,
      leaseUntil: 'null',
      won: '',
    }),
    functionSql(schema, {
      signature: `lease(${parameters}, _lease_ms float8, _namespace text, _name text, _input text)`,
      before: '',
      state: 1,
      leaseUntil: `_at + _lease_ms * interval '1 millisecond'`,
      won: `
      if _name is not null then
        insert into ${schema}.recover (id, namespace, name, input) values (_id, _namespace, _name, _input)
        on conflict (id) do update set namespace = excluded.namespace, name = excluded.name, input = excluded.input;
      end if;`,
    }),
  ]
}

/**
 * The server ends the transaction at the deadline, whatever happens to the process. From version 17 on one setting does
 * it; before that, one for the time between statements and one for each statement.
 */
export function deadlineExpression(ms: string): string {
  return `case when current_setting('server_version_num')::int4 >= 170000
    then set_config('transaction_timeout', ${ms}, true)
    else set_config('idle_in_transaction_session_timeout', ${ms}, true) || set_config('statement_timeout', ${ms}, true) end`
}

interface Parts {
  readonly signature: string
  readonly before: string
  readonly state: 1 | 2
  readonly leaseUntil: string
  readonly won: string
}

/** An atomic record is born completed: uncommitted means in progress, and it is never updated. */
function functionSql(schema: string, { signature, before, state, leaseUntil, won }: Parts): string {
  return `create function ${schema}.${signature} returns text language plpgsql as $$
declare
  _set text;
  _ok boolean;
  _won boolean;
  _at timestamptz;
  _expires timestamptz;
  _token bigint;
  _day date;
  _replayable boolean;
  _record text;
  _answer text;
begin${before}
  _won := pg_try_advisory_xact_lock(_lock);
  if _won then
    _ok := pg_try_advisory_xact_lock(_fp_lock);
  else
    _ok := pg_try_advisory_lock_shared(_fp_lock);
    if _ok then
      perform pg_advisory_unlock_shared(_fp_lock);
    end if;
  end if;
  if _won and _ok then
    _at := clock_timestamp();
    _token := date_part('epoch', _at) * 1000000;
    _expires := _at + _replay_ms * interval '1 millisecond';
    insert into ${schema}.record (id, scope, fp, fp_version, state, attempt, token, life, lease_until, expires_at, forget_at)
    values (_id, _scope, _fp, _fp_version, ${state}, 1, _token, _token, ${leaseUntil}, _expires, _expires + _gone_ms * interval '1 millisecond')
    on conflict (id) do nothing;
    if found then${won}
      return _token || '|' || (_expires at time zone 'utc')::date || '|' || pg_current_xact_id()::text;
    end if;
  end if;
  select row_to_json(s)::text, s.replayable, s.raw_token, s.raw_day into _record, _replayable, _token, _day
    from (select _ok as ok, _won as won, ${RECORD_COLUMNS},
                 r.state = 2 and r.fp = _fp and r.expires_at > clock_timestamp() as replayable,
                 r.token as raw_token, (r.expires_at at time zone 'utc')::date as raw_day
            from ${schema}.record r where r.id = _id) s;
  if not found then
    return json_build_object('ok', _ok, 'won', _won)::text;
  end if;
  if _replayable then
    select row_to_json(s)::text into _answer
      from (select a.status::int4 as status, a.headers, encode(a.body, 'base64') as body, a.kept
              from ${schema}.answer a where a.id = _id and a.day = _day and a.token = _token) s;
  end if;
  return case when _answer is null then _record else left(_record, -1) || ',"answer":' || _answer || '}' end;
end $$`
}
