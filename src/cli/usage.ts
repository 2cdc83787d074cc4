/** What a user did wrong: one line and exit code 2, never a stack. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
}

export const USAGE = `effectively-once <command> [--url URL] [--schema NAME] [--json]

  migrate          apply what is missing to the database; safe to run many times, from many places
  migrate --sql    print the migrations instead, for people who apply them themselves
  sweep            remove what is past its time, once
  help             this page

  --url URL        postgres://… or a SQLite file; default: the environment variable DATABASE_URL
  --schema NAME    the PostgreSQL schema of our tables; default: effectively_once
  --json           one JSON document on standard output instead of text

Exit codes: 0 done, 1 it failed, 2 the command line is wrong.`
