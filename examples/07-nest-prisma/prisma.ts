import { Injectable, Module } from '@nestjs/common'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './generated/client.ts'

@Injectable()
export class Prisma extends PrismaClient {
  constructor() {
    super({ adapter: new PrismaPg({ connectionString: process.env['DATABASE_URL'] ?? '' }) })
  }
}

@Module({ providers: [Prisma], exports: [Prisma] })
export class PrismaModule {}
