export interface Charge {
  readonly id: string
  readonly order: string
}

const LOSES_EVERY = 9

/** A provider whose charges need no key, and whose refunds honour one. It loses every ninth answer. */
export class Provider {
  readonly #charges: Charge[] = []
  readonly #refunded = new Map<string, string>()
  #asked = 0

  /** Charges the card. False: the answer was lost, although the card was charged. */
  charge(order: string): boolean {
    this.#charges.push({ id: `charge-${this.#charges.length + 1}`, order })
    return ++this.#asked % LOSES_EVERY !== 0
  }

  refund(charge: string, key: string): { refunded: string } {
    if (!this.#refunded.has(key)) this.#refunded.set(key, charge)
    return { refunded: charge }
  }

  /** The list that the provider offers for download. */
  chargesByOrder(): readonly Charge[] {
    return this.#charges.toSorted((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : 0))
  }

  get charges(): number {
    return this.#charges.length
  }

  get refunds(): number {
    return this.#refunded.size
  }

  /** Charges beyond the first of each order that were not refunded. */
  surplus(): number {
    const refunded = new Set(this.#refunded.values())
    const left = this.#charges.filter(({ id }) => !refunded.has(id))
    return left.length - new Set(left.map(({ order }) => order)).size
  }
}
