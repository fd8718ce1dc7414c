import { checkCallbackUrl, type HeaderLine, requestHeaders } from '#internal/egress/index.ts'
import type { AttemptExchange, EventContent } from '#internal/events/index.ts'
import { hiddenMark } from '#internal/redaction/index.ts'
import { callHeaders, carriedHeaders, forwardedEvent } from './webhook.ts'

/** Request of a past attempt without its body. */
export interface PastRequest {
  readonly method: 'POST'
  readonly url: string
  /** All headers in the order in which they were sent. Each signature is `v1,[redacted]`. */
  readonly headers: readonly HeaderLine[]
  readonly bodyBytes: number
}

/** Returns a function that computes the request of an attempt as it was sent, without signatures, which are not kept. */
export function pastRequestsOf(
  event: Omit<EventContent, 'payload' | 'provider'> & {
    readonly provider: string
    readonly payloadBytes: number
  },
): (attempt: { readonly startedAtMs: number; readonly exchange: AttemptExchange }) => PastRequest {
  const { hops } = carriedHeaders(event.headers)
  const bodyBytes = Buffer.byteLength(forwardedEvent({ ...event, payload: '' })) + event.payloadBytes
  return ({ startedAtMs, exchange: { url, signatures, traceparent } }) => {
    const checked = checkCallbackUrl(url)
    const authority = checked.kind === 'callback' ? checked.url.authority : ''
    const timestampSeconds = Math.floor(startedAtMs / 1000)
    const signature = Array.from({ length: signatures }, () => `v1,${hiddenMark}`).join(' ')
    const given = callHeaders({ id: event.id, timestampSeconds, signature, hops, traceparent })
    return { method: 'POST', url, headers: requestHeaders({ authority }, given, bodyBytes), bodyBytes }
  }
}

/** Writes a POST as a curl command for a POSIX shell, which passes every text to curl unchanged. */
export function curlCommand({
  url,
  headers,
  body,
}: {
  readonly url: string
  readonly headers: Iterable<readonly [name: string, value: string]>
  /** Undefined if the user of the command provides it in the file `event.json`. */
  readonly body: string | undefined
}): string {
  // The body is piped, since the length of an argument is limited. printf has no such limit, since it is part of the shell.
  const piped = body === undefined ? '' : `printf %s ${quoted(body)} | `
  return [
    // Without -g, curl expands brackets and braces of the URL.
    `${piped}curl -sS -i -g -X POST ${quoted(url)} \\`,
    ...[...headers].map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)} \\`),
    `  --data-binary @${body === undefined ? 'event.json' : '-'}`,
  ].join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
