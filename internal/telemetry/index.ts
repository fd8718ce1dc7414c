export type {
  Check,
  CheckResult,
  Health,
  HealthOptions,
  HealthSnapshot,
  Heartbeat,
  HeartbeatState,
  NamedCheck,
} from './health.ts'
export { createHealth } from './health.ts'
export type { LineLimit, LineLimitOptions } from './line-limit.ts'
export { createLineLimit } from './line-limit.ts'
export type { Logger, LoggerOptions, LogLevel, OwnedLogger } from './log.ts'
export { createLogger } from './log.ts'
export { redactedFieldNames } from './log-fields.ts'
export type { LogDestination } from './log-sink.ts'
export type {
  Counter,
  Gauge,
  GaugeOptions,
  Histogram,
  HistogramOptions,
  MetricOptions,
  Metrics,
  MetricsOptions,
} from './metrics.ts'
export { createMetrics } from './metrics.ts'
export type { Sampler } from './sampler.ts'
export { createSampler } from './sampler.ts'
export type { TracePlace } from './traceparent.ts'
export { formatTraceparent, parseTraceparent } from './traceparent.ts'
export type { SpanAttributes, SpanKind, SpanOptions, TraceSpan, Tracing, TracingOptions } from './tracing.ts'
export { createTracing } from './tracing.ts'
export type { UnlabelledMetrics } from './unlabelled.ts'
export { unlabelled } from './unlabelled.ts'
