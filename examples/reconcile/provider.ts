export interface Charge {
  readonly id: string
  /** The id of the operation, which the client sends along. */
  readonly operation: string
}

const LOSES_EVERY = 9

/** A provider whose charges need no key, and whose refunds honour one. It loses every ninth answer. */
export class Provider {
  readonly #charges: Charge[] = []
  readonly #refunded = new Map<string, string>()

  /** Charges the card. Null: the answer was lost, although the card was charged. */
  charge(operation: string): string | null {
    const id = `charge-${this.#charges.length + 1}`
    this.#charges.push({ id, operation })
    return this.#charges.length % LOSES_EVERY === 0 ? null : id
  }

  refund(charge: string, key: string): { refunded: string } {
    if (!this.#refunded.has(key)) this.#refunded.set(key, charge)
    return { refunded: charge }
  }

  /** The list that the provider offers for download, the newest charge of an operation first: its answer arrived. */
  chargesByOperation(): readonly Charge[] {
    return this.#charges
      .toReversed()
      .toSorted((a, b) => (a.operation < b.operation ? -1 : a.operation > b.operation ? 1 : 0))
  }

  isLeft(charge: string): boolean {
    return !new Set(this.#refunded.values()).has(charge)
  }

  get charges(): number {
    return this.#charges.length
  }

  get refunds(): number {
    return this.#refunded.size
  }

  /** Charges beyond the first of each operation that were not refunded. */
  surplus(): number {
    const left = this.#charges.filter(({ id }) => this.isLeft(id))
    return left.length - new Set(left.map(({ operation }) => operation)).size
  }
}
