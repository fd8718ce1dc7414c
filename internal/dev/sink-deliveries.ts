import { Webhook } from 'standardwebhooks'
import type { Clock } from '#internal/base/index.ts'
import {
  callbackField,
  type DirectoryTenant,
  type KeyRing,
  openTenantSecrets,
} from '#internal/tenants/index.ts'

/** Call that the sink received. A field that the body does not contain is ''. */
export interface Delivery {
  /** Sequence number since the start of the sink, from 1. */
  readonly number: number
  readonly receivedAtMs: number
  /** Path and query of the request. */
  readonly path: string
  readonly webhookId: string
  /** Number of calls with this webhook-id so far, including this call. */
  readonly attempt: number
  /** Slug, or else name, of the active tenant whose id the body contains; '' without such a tenant. */
  readonly tenant: string
  readonly provider: string
  readonly type: string
  readonly eventId: string
  /** Origin of the event, such as `simulation`; '' for a provider's call. */
  readonly origin: string
  readonly signature: Signature
  /** Status of the sink's response. */
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly bodyBytes: number
  /** At most the first `bodyKeptBytesMax` bytes of the body. */
  readonly body: string
}

/** The reason is one readable clause. */
export type Signature = { readonly kind: 'ok' } | { readonly kind: 'bad'; readonly reason: string }

export interface SinkTenants {
  readonly findTenant: (id: string) => DirectoryTenant | undefined
  readonly keyRing: KeyRing
}

export interface SinkCall {
  readonly path: string
  readonly headers: Headers
  readonly body: Uint8Array
  readonly nowMs: number
}

/** Maximum bytes of a body that are kept. */
export const bodyKeptBytesMax = 256 * 1024
/** Maximum number of deliveries kept; the oldest are dropped first. */
export const deliveriesKeptMax = 200
/** Maximum characters of all kept bodies, headers and paths in total. */
const charsKeptMax = 16 * 1024 * 1024
/** Maximum characters of a header or field that is shown in one line. */
const fieldCharsMax = 128
const idsCountedMax = 10_000
export const linesPerSecondMax = 20
const wordCharsMax = 48

/** Parses any call, even a malformed one, and verifies its signature with the secrets of the tenant that the body names. Never fails. */
export function readCall(
  call: SinkCall,
  { findTenant, keyRing }: SinkTenants,
): Omit<Delivery, 'number' | 'attempt' | 'status'> {
  const { path, headers, body, nowMs } = call
  const event = parseObject(body)
  const tenant = findTenant(field(event, 'tenantId'))
  return {
    receivedAtMs: nowMs,
    path,
    webhookId: (headers.get('webhook-id') ?? '').slice(0, fieldCharsMax),
    tenant: tenant === undefined ? '' : (tenant.slug ?? tenant.name),
    provider: field(event, 'provider'),
    type: field(event, 'type'),
    eventId: field(event, 'id'),
    origin: field(membersOf(event?.get('headers')), 'latchkey-origin'),
    signature: verify(call, tenant, keyRing),
    headers: [...headers],
    bodyBytes: body.byteLength,
    // Only the kept bytes are decoded, because a slice of a longer text would keep the whole text in memory. `stream` drops an incomplete
    // character at the end.
    body: new TextDecoder().decode(body.subarray(0, bodyKeptBytesMax), { stream: true }),
  }
}

/** Verifies a signature with the reference library of Standard Webhooks, which shares no code with the product's signing. */
function verify(
  { headers, body }: SinkCall,
  tenant: DirectoryTenant | undefined,
  keyRing: KeyRing,
): Signature {
  if (tenant === undefined) return { kind: 'bad', reason: 'its tenantId names no active tenant' }
  const { values: secrets, unreadableKeyIds } = openTenantSecrets(keyRing, tenant, callbackField)
  let reason =
    unreadableKeyIds.length > 0 ? 'the tenant’s secrets cannot be opened' : 'the tenant has no signing secret'
  for (const secret of secrets) {
    try {
      new Webhook(secret).verify(Buffer.from(body), Object.fromEntries(headers), { jsonParse: false })
      return { kind: 'ok' }
    } catch (error) {
      reason = error instanceof Error ? error.message : 'refused'
    }
  }
  return { kind: 'bad', reason }
}

/** Returns the members of a JSON object or array. Undefined for any other body. */
function parseObject(body: Uint8Array): ReadonlyMap<string, unknown> | undefined {
  try {
    return membersOf(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)))
  } catch {
    return undefined
  }
}

function membersOf(value: unknown): ReadonlyMap<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? new Map(Object.entries(value)) : undefined
}

function field(event: ReadonlyMap<string, unknown> | undefined, name: string): string {
  const value = event?.get(name)
  return typeof value === 'string' ? value.slice(0, fieldCharsMax) : ''
}

/** Counts how often each text occurs. Remembers the 10 000 most recent texts. */
export class Tally {
  readonly #counts = new Map<string, number>()

  /** Counts an occurrence and returns the new count. The empty text always counts as a first occurrence. */
  count(text: string): number {
    if (text === '') return 1
    const count = (this.#counts.get(text) ?? 0) + 1
    this.#counts.delete(text)
    this.#counts.set(text, count)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > idsCountedMax && oldest !== undefined) this.#counts.delete(oldest)
    return count
  }
}

/** Keeps the latest deliveries in memory. */
export class DeliveryLog {
  #kept: Delivery[] = []
  #chars = 0
  #newest = 0
  readonly #attempts = new Tally()

  /** Keeps a delivery with its sequence number and attempt number. Drops the oldest deliveries above the maximum. */
  add(fields: Omit<Delivery, 'number' | 'attempt'>): Delivery {
    this.#newest += 1
    const delivery = { ...fields, number: this.#newest, attempt: this.#attempts.count(fields.webhookId) }
    this.#kept.push(delivery)
    this.#chars += charsOf(delivery)
    while (this.#kept.length > deliveriesKeptMax || this.#chars > charsKeptMax)
      this.#chars -= charsOf(this.#kept.shift() ?? delivery)
    return delivery
  }

  newestFirst(): readonly Delivery[] {
    return this.#kept.toReversed()
  }
}

function charsOf({ body, headers, path }: Delivery): number {
  return headers.reduce((sum, [name, value]) => sum + name.length + value.length, body.length + path.length)
}

/** Prints at most a number of lines per second, and then the number of omitted lines. */
export class TerminalLines {
  readonly #say: (line: string) => void
  readonly #clock: Clock
  readonly #perSecondMax: number
  #secondEndsMs = Number.NEGATIVE_INFINITY
  #printed = 0
  #skipped = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(say: (line: string) => void, clock: Clock, perSecondMax: number) {
    this.#say = say
    this.#clock = clock
    this.#perSecondMax = perSecondMax
  }

  /** Prints a line, or counts it as omitted. `line` is called only for a line that is printed. */
  show(line: (nowMs: number) => string): void {
    const nowMs = this.#clock.now()
    if (nowMs >= this.#secondEndsMs) {
      this.flush()
      this.#secondEndsMs = nowMs + 1000
      this.#printed = 0
    }
    this.#printed += 1
    if (this.#printed <= this.#perSecondMax) return this.#say(line(nowMs))
    this.#skipped += 1
    this.#timer ??= setTimeout(() => this.flush(), this.#secondEndsMs - nowMs).unref()
  }

  /** Prints the number of omitted lines, if any, and clears the timer. Repeating the call is safe. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#skipped > 0) this.#say(`… and ${this.#skipped} more in that second`)
    this.#skipped = 0
  }
}

/** Plain text without terminal control characters. */
export function lineOf({ signature, attempt, status, ...delivery }: Delivery): string {
  const notes = [
    signature.kind === 'ok' ? 'signature ok' : `SIGNATURE NOT OK: ${signature.reason}`,
    ...(delivery.origin === '' ? [] : [word(delivery.origin)]),
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(status === 200 ? [] : [`answered ${status}`]),
  ]
  const words = `${word(delivery.provider)} ${word(delivery.type)} → ${word(delivery.tenant)}`
  return `${timeOf(delivery.receivedAtMs)} ${words}  ${word(delivery.webhookId)}  ${notes.join(', ')}`
}

/** Formats the local time of day as hh:mm:ss. */
export function timeOf(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8)
}

function word(text: string): string {
  const shown = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '').trim()
  return shown === '' ? '?' : shown.slice(0, wordCharsMax)
}
