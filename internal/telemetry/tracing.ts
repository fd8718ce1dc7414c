/** What a span was doing, seen from this process. */
export type SpanKind = 'internal' | 'server' | 'client' | 'consumer' | 'producer'

/** Values that a span may carry; the same rules as for a log field. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** What is known when a span begins. */
export interface SpanOptions {
  readonly kind?: SpanKind
  /** The caller's `traceparent` header; it comes before the span that is under way here. */
  readonly traceparent?: string | null
  readonly attributes?: SpanAttributes
}

/** A span under way. */
export interface TraceSpan {
  set(attributes: SpanAttributes): void
  /** Marks the span as failed; `reason` is a word of a closed set. */
  fail(reason: string): void
}

/** Spans of one process. */
export interface Tracing {
  /** Whether spans go anywhere: where it is false, skip even making the arguments. */
  readonly enabled: boolean
  /**
   * Runs `work` inside a span that ends with it. What it throws passes through and marks the span as failed, by the error's
   * name only.
   */
  span<T>(name: string, options: SpanOptions, work: (span: TraceSpan) => Promise<T>): Promise<T>
  /** The `traceparent` header for a call made now, or undefined outside of any span. */
  traceparent(): string | undefined
  /** Sends what is left, for at most `timeoutMs`. Repeating it is harmless; never rejects. */
  close(timeoutMs: number): Promise<void>
}

/** What tracing is made with. */
export interface TracingOptions {
  /** OTLP/HTTP receiver's base URL, to which `/v1/traces` is added; undefined switches tracing off. */
  readonly endpoint: string | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly serviceName: string
  readonly version: string
  /** Share of traces begun here that are kept, 0 to 1; default 1. A caller's decision counts first. */
  readonly sampleRatio?: number
  /** Hears of spans that could not be sent, once a batch. */
  readonly onLost?: (spans: number, error: Error | undefined) => void
}

/** Makes tracing. Without an endpoint nothing of OpenTelemetry is loaded, and a span costs one call. */
export async function createTracing(options: TracingOptions): Promise<Tracing> {
  const { endpoint } = options
  if (endpoint === undefined) return tracingOff
  const { startOtlpTracing } = await import('./tracing-otlp.ts')
  return startOtlpTracing({ ...options, endpoint })
}

const spanOff: TraceSpan = { set: () => undefined, fail: () => undefined }

/** Runs the work and nothing else. */
export const tracingOff: Tracing = {
  enabled: false,
  span: (_name, _options, work) => work(spanOff),
  traceparent: () => undefined,
  close: async () => undefined,
}

/** Where a span belongs: the parts of a `traceparent` header. */
export interface TracePlace {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Reads a `traceparent` header of W3C Trace Context (https://www.w3.org/TR/trace-context/, read 2026-11).
 * @returns undefined for anything that the standard calls invalid: then a new trace begins
 */
export function parseTraceparent(header: string): TracePlace | undefined {
  if (header.length > 256) return undefined
  const [, version = '', traceId = '', spanId = '', flags = '', rest] = pattern.exec(header) ?? []
  if (version === '' || version === 'ff') return undefined
  // Version 00 ends after its flags; a later one may go on.
  if (version === '00' && rest !== undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** Writes the header, version 00. */
export function formatTraceparent(place: TracePlace): string {
  return `00-${place.traceId}-${place.spanId}-${place.sampled ? '01' : '00'}`
}
