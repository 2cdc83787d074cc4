/**
 * A payment on Nest and Prisma: a guard authenticates, the controller answers, and a service writes through `tx`.
 *
 * npx prisma generate --schema examples/07-nest-prisma/schema.prisma
 * DATABASE_URL=postgres://localhost/shop PORT=3000 npx tsx examples/07-nest-prisma/main.ts
 */
import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { AppModule } from './app.module.ts'

const app = await NestFactory.create(AppModule)
// SIGTERM: the module closes the server, and then the instance.
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
