export {
  type Check,
  type CheckResult,
  createHealth,
  type Health,
  type HealthSnapshot,
  type Heartbeat,
} from './health.ts'
export {
  createLineLimit,
  createLogger,
  type Logger,
  type LogLevel,
  type OwnedLogger,
  Sampler,
} from './log.ts'
export type { LogDestination } from './log-sink.ts'
export { createMetrics, createSlugLabel, type Metrics, unlabelled } from './metrics.ts'
export { createTracing, type Tracing } from './tracing.ts'
