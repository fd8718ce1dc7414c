import type { Clock } from '#internal/base/index.ts'
import type { Acceptance, ReceivedEvent } from '#internal/events/index.ts'
import { type DirectoryTenant, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'
import type { EventVerdict } from '#internal/usage/index.ts'
import type { Caller } from './caller.ts'
import { createReceivedEvent } from './event.ts'
import { type HeaderRules, hopsMax, hopsOf, keptHeaders } from './event-headers.ts'
import type { RefusalCause } from './provider.ts'
import { type ReadContext, readForCaller, type UnknownCall } from './read-for-caller.ts'
import type { Accepting } from './sized-queues.ts'

/** What became of a call: its event's fate, or why it was refused before there was one. */
export type Accepted =
  | { readonly kind: Acceptance; readonly event: ReceivedEvent }
  | { readonly kind: 'invalid'; readonly cause: RefusalCause }
  | LimitedEvent
  /** Verified, but it has `hopsMax` hops or more. */
  | { readonly kind: 'looping' }
  /** Not verified: time-out, certificate unavailable, or secret unreadable. */
  | UnknownCall

/** It was verified, and is over a limit of its tenant. */
export type LimitedEvent = Extract<EventVerdict, { kind: 'limited' }>

/** What accepting works with. */
export interface AcceptContext extends ReadContext {
  readonly queue: Accepting
  readonly clock: Clock
  /** How far a signed time may lie from ours, in both directions. */
  readonly signatureAgeMsMax: number
  readonly headerRules: HeaderRules
  /** Whether another event of a tenant may come in by its limits; from memory. */
  checkLimits(tenant: DirectoryTenant): EventVerdict
  /** How long data is kept where a tenant leaves it open; asked for each call. */
  retentionDefaults(): RetentionDays
}

/** A call with its body's bytes as received. */
export interface WebhookCall {
  readonly headers: Headers
  readonly body: Uint8Array
  /** The simulation that makes this call; never taken from outside. */
  readonly simulationId?: string
}

/** Verifies, reads and stores a call: the one place that decides about it. Never throws for anything that a caller can send. */
export async function acceptWebhook(
  context: AcceptContext,
  caller: Caller,
  { headers, body, simulationId }: WebhookCall,
): Promise<Accepted> {
  const { tenant, provider, settings, state } = caller
  const receivedAtMs = context.clock.now()
  const { signatureAgeMsMax } = context
  const call = { body, headers, settings, nowMs: receivedAtMs, signatureAgeMsMax }
  const read = await readForCaller(context, caller, call)
  if (read.kind === 'unread' || read.kind === 'uncertified' || read.kind === 'unverifiable') return read
  if (read.kind === 'refused') return { kind: 'invalid', cause: read.cause }
  // Checked after the signature: `Latchkey-Hops` is unauthenticated.
  if (hopsOf(headers) >= hopsMax) return { kind: 'looping' }
  const verdict = context.checkLimits(tenant)
  if (verdict.kind === 'limited') return verdict
  const event = createReceivedEvent({
    tenant,
    provider: provider.name,
    event: read,
    headers: keptHeaders(headers, context.headerRules, simulationId),
    receivedAtMs,
    state,
    overLimit: verdict.kind === 'over',
    isSimulated: simulationId !== undefined,
    retention: retentionOf(tenant.retention, context.retentionDefaults()),
  })
  return { kind: await context.queue.accept(event), event }
}
