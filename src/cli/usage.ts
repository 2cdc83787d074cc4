/** A mistake in the command line: one line and exit code 2, never a stack trace. */
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
  /** Done, but an operator should look: doctor found a problem, a redrive paused, letters or events failed. */
  attention: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export const USAGE = `effectively-once <command> [options]

  init                       write a first protected route for this project; --dry-run: print it
  migrate                    apply missing migrations; safe to run many times, from many machines
  migrate --sql              print the SQL of the migrations, to apply it yourself; without --url: for PostgreSQL
  migrate --adopt NAME       assign rows from before namespaces existed to this namespace
  grants --role NAME         print the rights a role needs: --for app (default), relay, reader, owner
  status                     show versions, operations, waiting events, consumers, dead letters, redrives
  doctor                     report what is wrong, and how to fix it
  sweep                      remove expired data (--resend-for 7d: also events that were sent longer ago)
  relay --to URL             send events until interrupted; --drain: send waiting events and exit
  forget NAME                remove a destination that no relay sends to any more (--force: even if events wait)
  erase --scope TEXT         erase what is stored for a person; --dry-run: only count it
  operations [list]          list leased operations that are not completed; filters below
  operations show ID         show an operation with its steps (--reveal: also their results and its input)
  operations settle ID       record the outcome of an unknown operation (--step, --done, --rerun), or end it (--fail, --undo)
  operations release ID      end the lease of an operation: the next retry takes over at once
  parked list                list events that a relay gave up on; --destination NAME names its sink
  parked release             send parked events again, in order per aggregate
  parked skip                skip the first parked event of each aggregate, or --id; send the events behind it
  dead-letters [list]        list messages that consumers gave up on; filters below
  dead-letters count         count dead letters by kind of error
  dead-letters show ID       show a letter with its causes, attempts and body (--reveal: not masked)
  dead-letters export        print NDJSON (--reveal: with unmasked bodies, so that import accepts them)
  dead-letters import FILE   park exported letters; - reads standard input
  dead-letters discard       settle letters without running them
  redrive plan               show what a redrive would do; changes nothing
  redrive run                run letters again, under their own ids, and watch (--detach: do not watch)
  redrive list | show ID | watch ID
  redrive pause | abort ID
  redrive resume ID          continue, and watch (--detach: do not watch)
  redrive audit [ID]         show who did what, when and why
  reconcile plan FILE        compare our calls with the provider's; changes nothing (--reveal: show the entries)
  reconcile run FILE         compare, and compensate what differs; resumes where it stopped
  verify FILE                kill real processes at every boundary of a handler, retry and check
  completion SHELL           print a completion script for bash, zsh or fish
  demo                       show a short demo in the terminal
  help, version              show this page, or the version of this package

Everywhere
  --url URL                  postgres://… or a SQLite file; default: the environment variable DATABASE_URL
  --schema NAME              the PostgreSQL schema of our tables; default: effectively_once
  --json                     JSON on standard output instead of text

relay, forget, erase, operations, parked, dead-letters and redrive
  --namespace NAME           the service; required if several services share the database, except for operations

init
  --framework NAME           express, fastify, hono, koa, nest, node; default: the one in package.json
  --client NAME              pg, postgres, drizzle, kysely, prisma, pglite, sqlite; default: package.json and the URL
  --dir DIR                  the folder of the new files; default: src/once, or once

Which letters
  --consumer, --source, --type, --aggregate, --tenant, --fingerprint, --reason TEXT
  --since, --until TIME      when they were parked: ISO 8601, or an age such as 2h, 3d
  --state STATE              parked (default), skipped, redriven, discarded, any
  --id ID                    one letter; may be repeated (redrive, discard)
  --limit N

Which operations
  --state STATE              running, abandoned, unknown; default: all of them
  --route NAME, --label TEXT, --scope TEXT
  --older-than AGE           since the first attempt began, such as 10m, 2h

operations settle
  --step NAME --done JSON    the call was made, with this result: the next retry continues after it
  --step NAME --rerun        the call was not made: the next retry makes it
  --fail STATUS              the operation is over: every retry gets this status (--body JSON: and this body)
  --undo STATUS              as --fail, but the next retry or recover first undoes the finished steps
  --step NAME --undone JSON  the step of a refused operation was undone by hand

erase
  --scope TEXT, --key KEY    whose data, as your program passes the scope; --key: of one operation
  --aggregate TYPE:ID        also the sent events and dead letters of this aggregate; may be repeated

parked
  --destination NAME         the name of the sink
  --aggregate ID, --id ID    one aggregate, one event; default: all of them

forget, erase, redrive, reconcile run, dead-letters import and discard, operations settle and release, parked release and skip
  --why TEXT                 the reason, for the audit log; required for every change
  --by NAME                  who; default: the user and host of this machine
  --canary N                 run N first (10), and pause if one fails; --stop-after-canary: pause in any case
  --rate N                   letters or compensations per second (50)
  --pause-at SHARE           pause when more than this share of the last 50 fail (0.2)
  --force                    also run letters that are older than the inbox remembers
  --reorder                  also run letters that would overtake an earlier letter of their aggregate
  --transform FILE           a module that exports transform(event, letter): changes events before they run
  --reveal                   show the values that a transform changes
  --no-retry                 resume: do not run failed letters again

verify
  --within TIME              the whole run ends within this time (5m)
  --import NAME              a module that Node loads first, such as tsx for TypeScript before Node 22.18

relay
  --to URL                   https://…, nats://HOST?stream=NAME, kafka://HOST?topic=NAME, redis://HOST?stream=NAME,
                             amqp://HOST?queue=NAME (or exchange=NAME), sqs://HOST/ACCOUNT/QUEUE;
                             default: the environment variable RELAY_TO
  --secret-env NAME          the environment variable with the webhook's secret; default WEBHOOK_SECRET

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 done, but an operator should look.`
