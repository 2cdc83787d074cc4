import { Module } from '@nestjs/common'
import { OnceModule } from 'effectively-once/nest'
import type { AuthenticatedRequest } from './authentication.guard.ts'
import { ChargesController, ChargesService } from './charges.ts'
import { openOnce } from './once.ts'
import { Prisma, PrismaModule } from './prisma.ts'

@Module({
  imports: [
    OnceModule.forRootAsync({
      imports: [PrismaModule],
      inject: [Prisma],
      useFactory: async (prisma: Prisma) => ({
        once: await openOnce(prisma),
        scope: (request: AuthenticatedRequest) => request.customer,
      }),
    }),
  ],
  controllers: [ChargesController],
  providers: [ChargesService],
})
export class AppModule {}
