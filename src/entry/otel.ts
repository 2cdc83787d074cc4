export { otel } from '../telemetry/otel.ts'
export type { Otel, OtelOptions } from '../telemetry/otel.ts'
export type { OtelApi, OtelMeter, OtelTracer } from '../telemetry/otel-api.ts'
export type { WatchedInstance } from '../telemetry/read.ts'
