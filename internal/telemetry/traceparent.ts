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
