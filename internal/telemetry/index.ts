export {
  type Check,
  type CheckResult,
  createHealth,
  type Health,
  type HealthOptions,
  type HealthSnapshot,
  type Heartbeat,
  type HeartbeatState,
  type NamedCheck,
} from './health.ts'
export {
  createLineLimit,
  createLogger,
  createSampler,
  type LineLimit,
  type LineLimitOptions,
  type Logger,
  type LoggerOptions,
  type LogLevel,
  type OwnedLogger,
  type Sampler,
} from './log.ts'
export { redactedFieldNames } from './log-fields.ts'
export type { LogDestination } from './log-sink.ts'
export {
  type Counter,
  createMetrics,
  type Gauge,
  type GaugeOptions,
  type Histogram,
  type HistogramOptions,
  type MetricOptions,
  type Metrics,
  type MetricsOptions,
  type UnlabelledMetrics,
  unlabelled,
} from './metrics.ts'
export {
  createTracing,
  formatTraceparent,
  parseTraceparent,
  type SpanAttributes,
  type SpanKind,
  type SpanOptions,
  type TracePlace,
  type TraceSpan,
  type Tracing,
  type TracingOptions,
} from './tracing.ts'
