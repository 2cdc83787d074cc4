import type { Inbox, InboxSession, LeasedInbox, SomeInbox, Taken } from '../inbox.ts'
import { namespacedLetters } from './letters.ts'
import type { Own } from './own.ts'

/** The inbox as one namespace sees it: its own consumers. */
export function namespacedInbox<Tx>(inbox: SomeInbox<Tx>, own: Own): SomeInbox<Tx> {
  const by = <P extends { readonly consumer: string }>(params: P): P =>
    own.no === 0 ? params : { ...params, consumer: own.stored(params.consumer) }
  const leased: LeasedInbox = {
    letters: namespacedLetters(inbox.letters, own),
    async open(params) {
      await own.claim('consumer', params.consumer)
      await inbox.open(by(params))
    },
    look: (params) => inbox.look(by(params)),
    trying: (params) => inbox.trying(by(params)),
    untry: (params) => inbox.untry(by(params)),
    tries: (params) => inbox.tries(by(params)),
    failed: (params) => inbox.failed(by(params)),
    ...(inbox.applied && { applied: (params) => (inbox as Required<LeasedInbox>).applied(by(params)) }),
    park: (params) => inbox.park(by(params)),
    positions: (params) => inbox.positions(by(params)),
    pass: (params) => inbox.pass(by(params)),
  }
  return inbox.take ? { ...leased, ...atomicParts(inbox as Inbox<Tx>, own, by) } : leased
}

function atomicParts<Tx>(
  inbox: Inbox<Tx>,
  own: Own,
  by: <P extends { readonly consumer: string }>(params: P) => P,
): Pick<Inbox<Tx>, 'take' | 'enter' | 'sweep'> {
  return {
    async take(params): Promise<Taken<Tx>> {
      const taken = await inbox.take(by(params))
      return own.no === 0 ? taken : { ...taken, session: sessionOf(taken.session, by) }
    },
    enter: (session, params) => inbox.enter(session, by(params)),
    // A sweep covers all namespaces.
    sweep: (params) => inbox.sweep(params),
  }
}

function sessionOf<Tx>(
  of: InboxSession<Tx>,
  by: <P extends { readonly consumer: string }>(params: P) => P,
): InboxSession<Tx> {
  return {
    session: of.session,
    complete: (params) => of.complete(by(params)),
    rollback: () => of.rollback(),
  }
}
