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
  createSampler,
  type Logger,
  type LogLevel,
  type OwnedLogger,
  type Sampler,
} from './log.ts'
export type { LogDestination } from './log-sink.ts'
export { createMetrics, type Metrics, unlabelled } from './metrics.ts'
export { createTracing, type Tracing } from './tracing.ts'
