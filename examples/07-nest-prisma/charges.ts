import { Body, Controller, HttpException, Inject, Injectable, Post, UseGuards } from '@nestjs/common'
import { Idempotent, OnceContext, Op } from 'effectively-once/nest'
import { crashPoint } from '../crash.ts'
import { AuthenticationGuard } from './authentication.guard.ts'
import type { PaymentOp } from './once.ts'

// tsx emits no types of parameters, so each parameter names its provider with @Inject. With `nest build` that is optional.

@Injectable()
export class ChargesService {
  readonly #context: OnceContext

  constructor(@Inject(OnceContext) context: OnceContext) {
    this.#context = context
  }

  /** The operation of the request: no caller has to pass `tx` down to here. */
  async create(amount: number): Promise<unknown> {
    const { tx, scope } = this.#context.current<PaymentOp>()
    return tx.charge.create({ data: { customer: scope, amount } })
  }
}

@Controller('charges')
@UseGuards(AuthenticationGuard)
export class ChargesController {
  readonly #charges: ChargesService

  constructor(@Inject(ChargesService) charges: ChargesService) {
    this.#charges = charges
  }

  @Post()
  @Idempotent()
  async create(@Body() { amount }: { amount: number }, @Op() { tx, scope }: PaymentOp): Promise<unknown> {
    const charge = await this.#charges.create(amount)
    const { _sum: sum } = await tx.charge.aggregate({ where: { customer: scope }, _sum: { amount: true } })
    // The refusal is stored without the row above, and every retry gets it again.
    if ((sum.amount ?? 0) > 10_000) throw new HttpException({ declined: 'over the limit' }, 402)
    crashPoint('before-commit')
    return charge // sent after the commit
  }
}
