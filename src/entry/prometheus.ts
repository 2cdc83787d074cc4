export { prometheus } from '../telemetry/prometheus.ts'
export type { MetricsResponse, PrometheusMetrics } from '../telemetry/prometheus.ts'
export type { WatchedInstance } from '../telemetry/read.ts'
