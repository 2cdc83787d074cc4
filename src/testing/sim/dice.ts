import { uuid8Of } from '../../key/uuid.ts'
import type { Random } from '../../platform/random.ts'

/** Seeded random numbers (sfc32). The same seed makes the same world. */
export class Dice implements Random {
  private a: number
  private b: number
  private c: number
  private d = 1

  constructor(seed: number) {
    this.a = seed >>> 0
    this.b = (seed / 0x1_0000_0000) >>> 0
    this.c = 0x9e37_79b9
    for (let i = 0; i < 12; i++) this.next()
  }

  next(): number {
    const t = (((this.a + this.b) | 0) + this.d) | 0
    this.d = (this.d + 1) | 0
    this.a = this.b ^ (this.b >>> 9)
    this.b = (this.c + (this.c << 3)) | 0
    this.c = (((this.c << 21) | (this.c >>> 11)) + t) | 0
    return (t >>> 0) / 0x1_0000_0000
  }

  uuid(): string {
    const digits = Array.from({ length: 32 }, () => this.below(16).toString(16)).join('')
    return uuid8Of(digits)
  }

  /** A whole number in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n)
  }

  /** A number in [low, high). */
  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
}
