import type { Outbound } from '#internal/egress/index.ts'

export type FetchedText =
  | { readonly kind: 'text'; readonly text: string }
  /** The server responded 404 or 410. */
  | { readonly kind: 'absent' }
  /** `detail` is for the log; it contains no byte of the response. */
  | { readonly kind: 'failed'; readonly detail: string }

/** Fetches the text at an address. Never rejects. */
export type FetchText = (url: string) => Promise<FetchedText>

const fetchMsMax = 5000
/** Maximum bytes of a fetched text: enough for ten certificates of usual size, or for 32 keys with their certificates. */
const textBytesMax = 65_536

/** Fetches from a validated and pinned address: GET, status 200 only, no redirects, at most 64 KiB within 5 s. Never rejects. */
export function createKeyFetch(
  outbound: Outbound,
  {
    allowedCIDRs = [],
    port,
  }: {
    /** Non-public networks that may be called. Default: none. */
    readonly allowedCIDRs?: readonly string[]
    /** Port to connect to if an address names none. Default: 443. */
    readonly port?: number | undefined
  } = {},
): FetchText {
  return async (url) => {
    const result = await outbound.send({
      url: port === undefined ? url : url.replace(/^(https:\/\/[^/:]+)(?=\/)/, `$1:${port}`),
      allowedCIDRs,
      method: 'GET',
      headers: { accept: '*/*', 'user-agent': 'latchkey' },
      body: '',
      timeoutMs: fetchMsMax,
      answerBytesMax: textBytesMax,
    })
    if (result.kind === 'failed') return { kind: 'failed', detail: result.cause }
    // Only 404 and 410 are final. A 400, 403 or 429 can be an outage of the vendor or come from a proxy.
    if (result.status === 404 || result.status === 410) return { kind: 'absent' }
    if (result.status !== 200) return { kind: 'failed', detail: `status ${result.status}` }
    if (result.isAnswerCut) return { kind: 'failed', detail: `over ${textBytesMax} bytes` }
    return { kind: 'text', text: result.answer }
  }
}
