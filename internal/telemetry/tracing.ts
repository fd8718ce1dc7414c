export type SpanKind = 'internal' | 'server' | 'client' | 'consumer' | 'producer'

/** Attributes of a span. As for log fields: few, short, no secrets. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

export interface SpanOptions {
  readonly kind?: SpanKind
  /** `traceparent` header of the incoming call. Takes precedence over the active span as the parent. */
  readonly traceparent?: string | null
  readonly attributes?: SpanAttributes
}

export interface TraceSpan {
  set(attributes: SpanAttributes): void
  /** Marks the span as failed. `reason` must come from a closed set. */
  fail(reason: string): void
}

/** Creates the spans of one process. */
export interface Tracing {
  /** False if tracing is off, so that callers can avoid building arguments. */
  readonly enabled: boolean
  /** Runs `work` in a span and ends it afterwards. Rethrows an error and marks the span as failed with only the error's name. */
  span<T>(name: string, options: SpanOptions, work: (span: TraceSpan) => Promise<T>): Promise<T>
  /** Returns the `traceparent` header for an outgoing request; undefined outside a span. */
  traceparent(): string | undefined
  /** Flushes the remaining spans within `timeoutMs`. Idempotent; never rejects. */
  close(timeoutMs: number): Promise<void>
}

export interface TracingOptions {
  /** Base URL of the OTLP/HTTP receiver, to which `/v1/traces` is appended. Undefined disables tracing. */
  readonly endpoint: string | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly serviceName: string
  readonly version: string
  /** Share of the traces started here that are sampled, 0 to 1. Default 1. The decision of the caller takes precedence. */
  readonly sampleRatio?: number
  /** Called once per batch of spans that could not be sent. */
  readonly onLost?: (spans: number, error: Error | undefined) => void
}

/** Creates tracing. Without an endpoint, OpenTelemetry is not loaded and a span costs one function call. */
export async function createTracing(options: TracingOptions): Promise<Tracing> {
  const { endpoint } = options
  if (endpoint === undefined) return tracingOff
  const { startOtlpTracing } = await import('./tracing-otlp.ts')
  return startOtlpTracing({ ...options, endpoint })
}

const spanOff: TraceSpan = { set: () => undefined, fail: () => undefined }

export const tracingOff: Tracing = {
  enabled: false,
  span: (_name, _options, work) => work(spanOff),
  traceparent: () => undefined,
  close: async () => undefined,
}

export interface TracePlace {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Parses a `traceparent` header of W3C Trace Context (https://www.w3.org/TR/trace-context/, read 2026-11). Returns undefined for an invalid
 * header, so that a new trace starts.
 */
export function parseTraceparent(header: string): TracePlace | undefined {
  if (header.length > 256) return undefined
  const [, version = '', traceId = '', spanId = '', flags = '', rest] = pattern.exec(header) ?? []
  if (version === '' || version === 'ff') return undefined
  // Version 00 ends after its flags. Later versions can have further parts.
  if (version === '00' && rest !== undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** Formats a `traceparent` header in version 00. */
export function formatTraceparent(place: TracePlace): string {
  return `00-${place.traceId}-${place.spanId}-${place.sampled ? '01' : '00'}`
}
