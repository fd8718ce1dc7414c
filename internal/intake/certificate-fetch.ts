import type { Outbound } from '#internal/egress/index.ts'

/** What stands at an address. */
export type FetchedCertificate =
  | { readonly kind: 'text'; readonly text: string }
  /** The server itself says that there is nothing: 404 or 410. */
  | { readonly kind: 'absent' }
  /** `detail` is for the log; it holds nothing that the far side sent. */
  | { readonly kind: 'failed'; readonly detail: string }

const timeoutMs = 5000
/** Ten certificates of a size that nobody issues. */
const bytesMax = 65_536

/**
 * Makes a function that gets a certificate's text: GET, 200 and nothing else, redirects not followed, at most 64 KiB within 5 s, at
 * an address that was judged and pinned. Never rejects.
 * @param allowedCIDRs networks beyond public ones; production has none
 */
export function createCertificateFetch(
  outbound: Outbound,
  allowedCIDRs: readonly string[] = [],
): (url: string) => Promise<FetchedCertificate> {
  return async (url) => {
    const result = await outbound.send({
      url,
      allowedCIDRs,
      method: 'GET',
      headers: { accept: '*/*', 'user-agent': 'latchkey' },
      body: '',
      timeoutMs,
      answerBytesMax: bytesMax,
    })
    if (result.kind === 'failed') return { kind: 'failed', detail: result.cause }
    // No other status is definite: a 400, 403 or 429 may be the vendor's own trouble, or a guard before it.
    if (result.status === 404 || result.status === 410) return { kind: 'absent' }
    if (result.status !== 200) return { kind: 'failed', detail: `status ${result.status}` }
    if (result.answerCut) return { kind: 'failed', detail: `over ${bytesMax} bytes` }
    return { kind: 'text', text: result.answer }
  }
}
