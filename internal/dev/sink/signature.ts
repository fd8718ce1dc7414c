import { createHmac, timingSafeEqual } from 'node:crypto'

/** What checking a delivery's signature gave; the reason is one clause for people. */
export type Signature = { readonly kind: 'ok' } | { readonly kind: 'bad'; readonly reason: string }

/** What a signature is checked against. */
export interface SignedCall {
  readonly headers: Headers
  readonly body: Uint8Array
  /** Each `whsec_<base64>`; one that fits is enough. */
  readonly secrets: readonly string[]
  readonly nowMs: number
}

const ageSecondsMax = 300

/**
 * Checks the headers `webhook-id`, `webhook-timestamp` and `webhook-signature` as Standard Webhooks has them
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0), with five minutes of tolerance. Written apart from what
 * signs, so that a mistake there is seen here.
 */
export function checkSignature({ headers, body, secrets, nowMs }: SignedCall): Signature {
  const id = headers.get('webhook-id')
  const timestamp = headers.get('webhook-timestamp')
  const signatures = headers.get('webhook-signature')
  if (!id) return bad('no webhook-id header')
  if (!timestamp) return bad('no webhook-timestamp header')
  if (!signatures) return bad('no webhook-signature header')
  if (!/^\d{1,12}$/.test(timestamp)) return bad('webhook-timestamp is not in seconds')
  const ageSeconds = Math.floor(nowMs / 1000) - Number(timestamp)
  if (ageSeconds > ageSecondsMax) return bad(`signed ${ageSeconds} s ago, at most ${ageSecondsMax}`)
  if (-ageSeconds > ageSecondsMax) return bad(`signed ${-ageSeconds} s in the future`)
  const given = signatures.split(' ').filter((each) => each.startsWith('v1,'))
  if (given.length === 0) return bad('webhook-signature has no v1')
  const fits = secrets
    .map((secret) => sign(secret, `${id}.${timestamp}.`, body))
    .some((expected) => given.some((each) => isSame(each, expected)))
  return fits ? { kind: 'ok' } : bad('no live secret of the tenant made it')
}

function sign(secret: string, head: string, body: Uint8Array): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return `v1,${createHmac('sha256', key).update(head).update(body).digest('base64')}`
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function bad(reason: string): Signature {
  return { kind: 'bad', reason }
}
