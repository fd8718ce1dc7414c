import type { CallTrace, HeaderLine } from '#internal/egress/index.ts'

/** A completed delivery attempt, from the call to its row. */
export interface Attempt {
  readonly startedAtMs: number
  readonly durationMs: number
  readonly outcome: 'delivered' | 'refused' | 'failed'
  readonly status: number | null
  /** Reason for a missing response, or for the failure of the event. */
  readonly cause: string | null
  /** Body of the response, truncated. */
  readonly answer: string | null
  /** Undefined if no call was made. */
  readonly exchange?: AttemptExchange | undefined
}

/** Request and response of an attempt, without what the event and the attempt say already, without signatures, and without credentials. */
export interface AttemptExchange extends CallTrace {
  /** URL that was called. */
  readonly url: string
  /** Number of signatures in `webhook-signature`. */
  readonly signatures: number
  readonly traceparent?: string | undefined
  /** Explanation of a missing response. */
  readonly problem?: string | undefined
  /** Headers of the response, at most 32 with 4 096 characters together. */
  readonly headers: readonly HeaderLine[]
  /** Number of further headers of the response. */
  readonly headersOmitted: number
  /** Whether the body of the response is longer than the stored answer. */
  readonly isAnswerCut: boolean
}

/** Encodes an exchange for the column `exchange`, usually in 300 to 600 bytes. Members with a default value are omitted. Pure. */
export function encodeExchange(exchange: AttemptExchange): string {
  const { url, signatures, traceparent, problem, headers, headersOmitted, isAnswerCut, address } = exchange
  return JSON.stringify({
    url,
    traceparent,
    problem,
    address,
    signatures: signatures === 1 ? undefined : signatures,
    isReused: exchange.isReused || undefined,
    dnsMs: rounded(exchange.dnsMs),
    connectMs: rounded(exchange.connectMs),
    tlsMs: rounded(exchange.tlsMs),
    firstByteMs: rounded(exchange.firstByteMs),
    headers: headers.length === 0 ? undefined : headers,
    headersOmitted: headersOmitted || undefined,
    isAnswerCut: isAnswerCut || undefined,
  })
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms)
}

const defaults = { signatures: 1, isReused: false, headers: [], headersOmitted: 0, isAnswerCut: false }

/** Parses the column `exchange`. Returns undefined for null. */
export function parseExchange(text: string | null): AttemptExchange | undefined {
  return text === null ? undefined : { ...defaults, ...(JSON.parse(text) as { url: string }) }
}

/** Returns the body of a response as Postgres can store it. Pure. */
export function storableAnswer(answer: string | null): string | null {
  return answer?.replaceAll('\u0000', '\ufffd') ?? null
}

/** Returns the value of the column `exchange`. Pure. */
export function storableExchange({ exchange }: Attempt): string | null {
  return exchange === undefined ? null : encodeExchange(exchange)
}
