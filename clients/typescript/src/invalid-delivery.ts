/**
 * Reason for refusing a delivery with 400. `headers_missing`: `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing or
 * malformed. `timestamp`: the delivery's time differs from this clock by more than 5 minutes. `signature`: no secret of the receiver
 * matches the signature. `body`: the body is signed, but is not an event.
 */
export type InvalidDeliveryReason = 'headers_missing' | 'timestamp' | 'signature' | 'body'

const texts = {
  headers_missing: 'it has no webhook-id, webhook-timestamp or webhook-signature: Latchkey did not send it',
  timestamp: 'its webhook-timestamp differs from the clock of this machine by more than 5 minutes',
  signature:
    'none of the signing secrets of this receiver made its signature: compare them with the Secret of the tenant in Latchkey, and pass the body as received',
  body: 'its body is not an event of Latchkey',
} as const satisfies Readonly<Record<InvalidDeliveryReason, string>>

/** Refusal of a delivery. The message contains no secret and nothing of the delivery. */
export class InvalidDelivery extends Error {
  override readonly name = 'InvalidDelivery'
  readonly reason: InvalidDeliveryReason

  constructor(reason: InvalidDeliveryReason) {
    super(`Latchkey: a delivery was refused (${reason}): ${texts[reason]}`)
    this.reason = reason
  }
}

const toleranceSeconds = 5 * 60

/** Returns the reason why no secret accepted the headers of a delivery. Pure. */
export function refusalOf(
  headers: Readonly<Record<'id' | 'timestamp' | 'signature', string>>,
  nowMs: number,
): InvalidDelivery {
  const { id, timestamp, signature } = headers
  const seconds = Number(timestamp)
  if (id === '' || timestamp === '' || signature === '' || Number.isNaN(seconds))
    return new InvalidDelivery('headers_missing')
  const isLate = Math.abs(nowMs / 1000 - seconds) > toleranceSeconds
  return new InvalidDelivery(isLate ? 'timestamp' : 'signature')
}

const logEveryMs = 10_000

/** Creates a reporter that logs at most one refusal in 10 s, because unauthenticated callers reach a receiver. */
export function createRefusalLog(): (error: InvalidDelivery) => void {
  let quietUntilMs = 0
  let hidden = 0
  return ({ message }) => {
    const nowMs = Date.now()
    if (nowMs < quietUntilMs) {
      hidden += 1
      return
    }
    quietUntilMs = nowMs + logEveryMs
    const more = hidden === 0 ? '' : ` (and ${hidden} more since the last line)`
    hidden = 0
    // oxlint-disable-next-line no-console -- a wrong secret that nothing reports looks like missing events
    console.warn(`${message}${more}`)
  }
}
