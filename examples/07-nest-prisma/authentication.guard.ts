import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common'
import type { Request } from 'express'
import { customerOf } from '../authentication.ts'

export interface AuthenticatedRequest extends Request {
  customer: string
}

/** Guards run before interceptors, so the scope of the key can read what this guard found. */
@Injectable()
export class AuthenticationGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<AuthenticatedRequest>()
    request.customer = customerOf(request.headers.authorization)
    return request.customer !== ''
  }
}
