import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { within } from '#internal/base/index.ts'
import {
  formatTraceparent,
  parseTraceparent,
  type SpanOptions,
  type TraceSpan,
  type Tracing,
  type TracingOptions,
} from './tracing.ts'

const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  producer: SpanKind.PRODUCER,
}

/** Maximum number of spans in the queue for a slow receiver. Further spans are dropped. */
const queueMax = 4096
const batchMax = 512
const batchAfterMs = 1000
const exportTimeoutMs = 5000
const attributesMax = 32
const attributeCharsMax = 1024

/** Starts tracing without global registration, so that several instances can coexist. */
export function startOtlpTracing(options: TracingOptions & { readonly endpoint: string }): Tracing {
  const provider = createProvider(options)
  const tracer = provider.getTracer('latchkey', options.version)
  const active = new AsyncLocalStorage<Context>()
  let closing: Promise<void> | undefined

  const parentOf = ({ traceparent }: SpanOptions): Context => {
    const place = traceparent ? parseTraceparent(traceparent) : undefined
    if (!place) return active.getStore() ?? ROOT_CONTEXT
    return trace.setSpanContext(ROOT_CONTEXT, {
      traceId: place.traceId,
      spanId: place.spanId,
      traceFlags: place.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
      isRemote: true,
    })
  }

  return {
    enabled: true,
    async span(name, spanOptions, work) {
      const parent = parentOf(spanOptions)
      const { kind = 'internal', attributes } = spanOptions
      const span = tracer.startSpan(name, { kind: kinds[kind], ...(attributes && { attributes }) }, parent)
      try {
        return await active.run(trace.setSpan(parent, span), work, handleOf(span))
      } catch (error) {
        span.setStatus({
          code: SpanStatusCode.ERROR,
          message: error instanceof Error ? error.name : 'thrown',
        })
        throw error
      } finally {
        span.end()
      }
    },
    traceparent() {
      const context = active.getStore()
      const place = context && trace.getSpanContext(context)
      if (!place) return undefined
      const sampled = (place.traceFlags & TraceFlags.SAMPLED) !== 0
      return formatTraceparent({ traceId: place.traceId, spanId: place.spanId, sampled })
    },
    close(timeoutMs) {
      closing ??= closeWithin(provider, timeoutMs)
      return closing
    },
  }
}

function createProvider(options: TracingOptions & { readonly endpoint: string }): TracerProvider {
  const exporter = new OTLPTraceExporter({
    url: `${options.endpoint.replace(/\/+$/, '')}/v1/traces`,
    headers: { ...options.headers },
    timeoutMillis: exportTimeoutMs,
  })
  return new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.serviceName,
      'service.version': options.version,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(options.sampleRatio ?? 1) }),
    spanLimits: {
      attributeCountLimit: attributesMax,
      attributeValueLengthLimit: attributeCharsMax,
      eventCountLimit: 0,
      linkCountLimit: 0,
    },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: reporting(exporter, options.onLost),
        maxQueueSize: queueMax,
        maxExportBatchSize: batchMax,
        scheduledDelayMillis: batchAfterMs,
        exportTimeoutMillis: exportTimeoutMs,
      }),
    ],
  })
}

/** Reports export failures, because the batch processor hides them. */
function reporting(exporter: SpanExporter, onLost: TracingOptions['onLost']): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.code !== 0) onLost?.(spans.length, result.error)
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  }
}

function handleOf(span: Span): TraceSpan {
  return {
    set: (attributes) => {
      span.setAttributes(attributes)
    },
    fail: (reason) => {
      span.setStatus({ code: SpanStatusCode.ERROR, message: reason })
    },
  }
}

async function closeWithin(provider: TracerProvider, timeoutMs: number): Promise<void> {
  // `onLost` has already reported that the receiver is unavailable.
  await within(
    timeoutMs,
    provider.shutdown().catch(() => undefined),
    () => undefined,
  )
}
