/** What a user did wrong: one line and exit code 2, never a stack. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
}

/** Documented in docs/cli.md, and tested. */
export const EXIT = {
  done: 0,
  /** The work failed: no connection, not migrated, refused. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** Done, and somebody should look: doctor found something, a redrive paused, letters failed again. */
  attention: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export const USAGE = `effectively-once <command> [options]

  migrate                    apply what is missing to the database; safe to run many times, from many places
  migrate --sql              print the migrations instead, for people who apply them themselves
  migrate --adopt NAME       give what was there before namespaces were told apart to this one
  grants --role NAME         print the rights a role needs: --for app (default), relay, reader, owner
  status                     versions, operations, events that wait, consumers, dead letters, redrives
  doctor                     what is wrong, and the command that mends it
  sweep                      remove what is past its time (--resend-for 7d: also events sent longer ago)
  relay --to URL             send events to a webhook until interrupted; --drain: what there is now
  operations [list]          leased operations that are not completed; filters as below
  operations show ID         one operation with its steps (--reveal: with their results and its input)
  operations settle ID       say what became of an unknown one (--step, --done, --rerun), or end it (--fail)
  operations release ID      end its lease: the next retry takes over at once
  parked list                events that a relay gave up; --destination NAME names its sink
  parked release             send them after all, each aggregate's in order
  parked skip                give the first of each aggregate up, or --id; what stood behind it is sent
  dead-letters [list]        messages that consumers set aside; filters as below
  dead-letters count         how many, since when, of which kinds
  dead-letters show ID       one letter with its causes, attempts and body (--reveal: not masked)
  dead-letters export        NDJSON on standard output (--reveal: importable where bodies are masked)
  dead-letters import FILE   park what was exported; - reads standard input
  dead-letters discard       settle letters without running them
  redrive plan               what running letters again would meet; changes nothing
  redrive run                run them again, under their own ids, and watch (--detach: do not)
  redrive list | show ID | watch ID
  redrive pause | resume | abort ID
  redrive audit [ID]         who did what, when and why
  demo                       the story in the terminal
  help                       this page

Everywhere
  --url URL                  postgres://… or a SQLite file; default: the environment variable DATABASE_URL
  --schema NAME              the PostgreSQL schema of our tables; default: effectively_once
  --json                     JSON on standard output instead of text

relay, operations, parked, dead-letters and redrive
  --namespace NAME           whose events, letters, operations and consumers; needed where several services share the database

Which letters
  --consumer, --source, --type, --aggregate, --tenant, --fingerprint, --reason TEXT
  --since, --until TIME      when they were set aside: ISO 8601, or an age such as 2h, 3d
  --state STATE              parked (default), skipped, redriven, discarded, any
  --id ID                    one letter; may be repeated (redrive, discard)
  --limit N

Which operations
  --state STATE              running, abandoned, unknown; default: all of them
  --route NAME, --label TEXT, --scope TEXT
  --older-than AGE           since the first attempt began, such as 10m, 2h

operations settle
  --step NAME --done JSON    the call was made, with this result: the next retry goes on after it
  --step NAME --rerun        the call was not made: the next retry makes it
  --fail STATUS              the operation is over: every retry gets this status (--body JSON: and this body)

parked
  --destination NAME         the name of the sink
  --aggregate ID, --id ID    one aggregate, one event; default: all of them

redrive, dead-letters import and discard, operations settle and release, parked release and skip
  --why TEXT                 the reason, for the audit; needed for every change
  --by NAME                  who; default: the user and host of this machine
  --canary N                 so many first (10); any failure among them pauses; --stop-after-canary waits for resume
  --rate N                   letters per second (50)
  --pause-at SHARE           pause when more than this share of the last 50 fail (0.2)
  --force                    also letters older than the inbox remembers
  --reorder                  also letters that would overtake an earlier one of their aggregate
  --transform FILE           a module that exports transform(event, letter): changes events before they run
  --reveal                   show values in the differences a transform makes
  --no-retry                 resume: leave what failed

relay
  --secret-env NAME          the environment variable with the webhook's secret; default WEBHOOK_SECRET

Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 3 done but somebody should look.`
