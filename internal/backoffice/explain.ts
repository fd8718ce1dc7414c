import type { Actor } from '#internal/access/index.ts'
import { type Day, dayAfter, type EventId } from '#internal/base/index.ts'
import { hasDestination, notificationAttemptsMax } from '#internal/delivery/index.ts'
import {
  carriesEvents,
  countDeliveriesBefore,
  type DeliveryProgress,
  destinationOf,
  type EventSummary,
  findFeedPosition,
  readDestinationStatus,
  readProgress,
} from '#internal/events/index.ts'
import { readSetting } from '#internal/settings/index.ts'
import { findReaders, type Readers } from '#internal/subscriptions/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { blockersOf, pausesOf } from './blockers.ts'
import { adviceOf, attemptCauses, endCauseOf, statusAdvice } from './causes.ts'
import type { Explanation } from './http-event-answers.ts'
import { notFound, type Outcome, ok } from './outcome.ts'
import type { SharedDeskParts } from './parts.ts'
import { reachEvent } from './reach.ts'
import { type Blocker, blockerState } from './states.ts'

type Attempt = NonNullable<DeliveryProgress['lastAttempt']>

export interface Facts {
  readonly event: Pick<EventSummary, 'state' | 'completedAtMs' | 'payloadExpiresOn' | 'origin'>
  readonly lastAttempt: Attempt | undefined
  readonly delivery: DeliveryProgress['delivery']
  /** What blocks deliveries to the receiver of the event, most general first. */
  readonly blockers: readonly Blocker[]
  readonly mayEndPause: boolean
  readonly hasCallback: boolean
  /** Subscriptions that will return the event. Empty unless the event waits for a pull. */
  readonly readers: Readers
  readonly attemptsMax: number
  /** Deliveries of the tenant that are due earlier, counted up to `aheadMax`. */
  readonly aheadCount: number
  readonly today: Day
  readonly nowMs: number
}

export const aheadMax = 1_000

/** Explains why an event has its state. */
export function explain(facts: Facts): Explanation {
  const explanation = explainAsCallback(facts)
  if (facts.event.origin.kind !== 'notification') return explanation
  const { sentence, todo } = explanation
  return {
    ...explanation,
    sentence: ofReceiver(sentence),
    todo: todo && ofReceiver(todo),
  }
}

/** Replaces "the callback" in a text by "the receiver of notifications", to which the same rules apply. */
function ofReceiver(text: string): string {
  return text.replaceAll(/\b([Tt]he) callback\b/g, '$1 receiver of notifications')
}

function explainAsCallback(facts: Facts): Explanation {
  const { event } = facts
  switch (event.state) {
    case 'processed':
      return { ...since(event), ...explainEnd(facts) }
    case 'delivery_failed':
      return explainFailure(facts)
    case 'verified':
      return {
        position: 'verified',
        sentence:
          'The provider is in verify-only mode for this tenant, so the event is stored and not delivered.',
        todo: 'Have the platform team set spec.walletRollout.stage to enabled, then replay the event.',
      }
    case 'accepted':
      if (isAwaiting(facts)) return explainPull(facts)
      return explainProgress(facts) ?? explainExpiry(facts) ?? explainBlocker(facts) ?? explainQueue(facts)
  }
}

function since({ completedAtMs }: Facts['event']): { readonly startedAtMs?: number } {
  return completedAtMs === null ? {} : { startedAtMs: completedAtMs }
}

function explainEnd({ lastAttempt }: Facts): Explanation {
  const { attempt, status = null } = lastAttempt ?? {}
  // If the last attempt of a processed event failed, an acknowledgement has processed the event.
  if (status === null || status < 200 || status > 299)
    return { position: 'acknowledged', sentence: 'A subscription acknowledged the event.' }
  return {
    position: 'delivered',
    sentence: `The callback accepted the event: it answered ${status} to attempt ${attempt}.`,
  }
}

/** Returns whether an accepted event waits for a pull: its tenant has no callback, or had none when the event arrived. */
function isAwaiting({ hasCallback, delivery }: Pick<Facts, 'hasCallback' | 'delivery'>): boolean {
  return !hasCallback || delivery === undefined
}

function explainPull(facts: Facts): Explanation {
  const { hasCallback, readers, blockers } = facts
  if (blockers[0]?.kind === 'tenant_suspended') return explainBlocker(facts) ?? explainQueue(facts)
  const { total, names } = readers
  const [first] = names
  const cause = hasCallback ? 'The event came while the tenant had no callback' : 'The tenant has no callback'
  const wait = `${cause}, so the event waits for an acknowledgement by a subscription`
  const others = `the ${countText(total, 'subscription')} of the tenant`
  const [sentence, todo] = first
    ? [
        `${wait}: ${names.join(', ')}.`,
        `Pull it and acknowledge it: POST /v1/subscriptions/${first}/pull, then …/ack.`,
      ]
    : total === 0
      ? [
          `${wait}, and the tenant has none.`,
          'Create one that begins before the event: PUT /v1/subscriptions/{name} with from.',
        ]
      : [
          `${wait}, and none will return it: ${others} exclude it by their filters, or have passed it.`,
          'Move one back with POST /v1/subscriptions/{name}/seek, or create one whose filter it matches.',
        ]
  const more = hasCallback ? ' Or deliver it to the callback: POST …/replay.' : ''
  return { position: 'awaiting_acknowledgement', sentence, todo: `${todo}${more}` }
}

function explainFailure({ event, lastAttempt }: Facts): Explanation {
  const failed = { ...since(event), position: 'failed' } as const
  const isTest = event.origin.kind === 'test'
  const again = isTest ? 'send another test event.' : 'replay the event.'
  if (lastAttempt === undefined)
    return { ...failed, sentence: 'The delivery has failed.', todo: `Find the cause, then ${again}` }
  // Does not count the end of the payload's retention, which is stored as an attempt although nothing was sent.
  const made = lastAttempt.attempt - (lastAttempt.cause === 'payload_expired' ? 1 : 0)
  const head = `The delivery has failed ${made === 0 ? 'before its first attempt' : `after ${countText(made, 'attempt')}`}`
  const end = endOf(lastAttempt)
  if (end) return { ...failed, sentence: `${head}: ${end.text}.`, todo: end.todo }
  const { text, todo } = resultOf(lastAttempt)
  const all = isTest ? '' : ': all attempts of the retry schedule were made'
  return { ...failed, sentence: `${head}${all}; ${text}.`, todo: `${todo} Then ${again}` }
}

/** Returns why an attempt ended the delivery before the retry schedule did, and what to do. */
function endOf({ status, cause }: Attempt) {
  // Ignores a call that the platform aborted: it has the same cause as an event that the callback refused, but no response.
  if (cause === null || (status === null && cause !== 'payload_expired')) return undefined
  return endCauseOf(cause)
}

function resultOf({ status, cause }: Attempt): { readonly text: string; readonly todo: string } {
  if (status === null) {
    const { title, todo } = adviceOf(cause ?? '')
    return { text: `the last one ended with “${title}”`, todo }
  }
  const todo = statusAdvice(status)?.todo ?? 'Read the callback’s log for this webhook-id.'
  return { text: `the callback last answered ${status}`, todo }
}

function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** Advice to an actor who may resume deliveries. The page of the event turns the text into a link to the action. */
export const resumeAdvice = {
  all: 'Resume deliveries of all tenants.',
  tenant: 'Resume deliveries of this tenant.',
} as const

/** Returns undefined if deliveries of the tenant are not blocked, or not for this event. */
function explainBlocker({ blockers, mayEndPause, delivery, nowMs }: Facts): Explanation | undefined {
  const [blocker] = blockers
  if (blocker === undefined) return undefined
  const { position, cause, effect, todo } = blockerState(blocker, () => 'this tenant')
  if (position === undefined) return undefined
  const explained = { position, sentence: `${cause}: ${effect}.`, todo }
  if ('breaker' in blocker) {
    // If the next attempt is due after the open time of the breaker, the event waits for this attempt and not for the breaker.
    const dueAtMs = delivery?.dueAtMs ?? nowMs
    const isHeld = blocker.breaker !== 'closed' && dueAtMs <= Math.max(nowMs, blocker.endsAtMs ?? nowMs)
    return isHeld ? { ...explained, nextChangeAtMs: blocker.endsAtMs } : undefined
  }
  if (blocker.kind === 'tenant_suspended') return explained
  const { startedAtMs } = blocker
  return blocker.kind === 'forwarding_paused' && mayEndPause
    ? { ...explained, startedAtMs, todo: resumeAdvice[blocker.tenantId === null ? 'all' : 'tenant'] }
    : { ...explained, startedAtMs }
}

/** Returns a text such as "attempt 3 of 8". The schedule may have been shortened to fewer attempts than were made. */
function nextAttempt({ delivery, attemptsMax }: Facts): string {
  const number = (delivery?.attemptCount ?? 0) + 1
  return `attempt ${number} of ${Math.max(number, attemptsMax)}`
}

function explainProgress(facts: Facts): Explanation | undefined {
  const { delivery } = facts
  if (!delivery?.isClaimed) return undefined
  return {
    position: 'in_progress',
    sentence: `A forwarder makes ${nextAttempt(facts)}.`,
    nextChangeAtMs: delivery.dueAtMs,
  }
}

function explainExpiry({ event, today }: Facts): Explanation | undefined {
  if (event.payloadExpiresOn >= today) return undefined
  return {
    position: 'payload_expired',
    sentence: 'The payload’s retention has ended, so the delivery fails at its next attempt.',
    todo: attemptCauses.payload_expired.todo,
  }
}

const retryTodo = 'A retry attempts it at once.'

function explainQueue(facts: Facts): Explanation {
  const { delivery, lastAttempt, aheadCount, nowMs } = facts
  const next = nextAttempt(facts)
  if (delivery && delivery.dueAtMs > nowMs) {
    const waits = { position: 'waiting', nextChangeAtMs: delivery.dueAtMs } as const
    if (lastAttempt === undefined)
      return { ...waits, sentence: `The event waits for ${next}.`, todo: retryTodo }
    const { text, todo } = resultOf(lastAttempt)
    return { ...waits, sentence: `The event waits for ${next}; ${text}.`, todo: `${todo} ${retryTodo}` }
  }
  const plural = aheadCount === 1 ? 'delivery' : 'deliveries'
  const ahead = aheadCount > aheadMax ? `more than ${aheadMax}` : aheadCount
  return {
    position: 'queued',
    sentence:
      aheadCount === 0
        ? `The event is next in the tenant’s queue for ${next}.`
        : `The event is in the tenant’s queue for ${next}, behind ${ahead} other ${plural}.`,
  }
}

export async function explainEvent(
  parts: SharedDeskParts,
  actor: Actor,
  id: EventId,
): Promise<Outcome<Explanation>> {
  const reached = await reachEvent(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const { tenant } = reached.value
  const nowMs = parts.clock.now()
  const progress = await readProgress(parts.readPool, { id, tenantId: tenant.id }, nowMs)
  if (progress === undefined) return notFound
  return ok(explain({ ...(await factsOf(parts, actor, tenant, progress)), nowMs, today: dayAfter(nowMs, 0) }))
}

async function factsOf(
  parts: SharedDeskParts,
  actor: Actor,
  tenant: DirectoryTenant,
  progress: DeliveryProgress,
): Promise<Omit<Facts, 'nowMs' | 'today'>> {
  const { readPool } = parts
  const { event, delivery } = progress
  const destination = destinationOf(event.origin.kind)
  const isForEvents = carriesEvents(destination)
  const hasCallback = hasDestination(tenant, destination)
  const attemptsMax = isForEvents
    ? (tenant.callback?.rules.retry.schedule.length ?? 0)
    : notificationAttemptsMax
  const suspended: readonly Blocker[] = tenant.suspended
    ? [{ kind: 'tenant_suspended', tenantId: tenant.id }]
    : []
  const facts = {
    ...progress,
    blockers: suspended,
    mayEndPause: false,
    aheadCount: 0,
    readers: noReaders,
    attemptsMax,
    hasCallback,
  }
  if (event.state !== 'accepted') return facts
  if (isAwaiting(facts)) {
    const position = await findFeedPosition(readPool, event)
    return { ...facts, readers: await findReaders(readPool, { ...event, position }) }
  }
  const key = { tenantId: tenant.id, destination }
  const [blocker, settings, aheadCount] = await Promise.all([
    readDestinationStatus(readPool, key),
    readSetting(readPool, 'forwarding.paused', tenant.id),
    delivery ? countDeliveriesBefore(readPool, key, delivery.dueAtMs, aheadMax + 1) : 0,
  ])
  // A pause of one tenant stops only deliveries to the callback, not notifications. A pause of all tenants stops both.
  const pauses = await pausesOf(parts, actor, settings, () => isForEvents)
  const owner = pauses[0] && (pauses[0].tenantId === null ? 'all' : tenant)
  const mayEndPause =
    owner !== undefined && (await parts.access.may(actor, 'changeSettings', owner)).kind === 'allowed'
  const blockers = [...suspended, ...pauses, ...blockersOf({ tenantId: tenant.id, ...blocker })]
  return { ...facts, blockers, mayEndPause, aheadCount }
}

const noReaders: Readers = { total: 0, names: [] }
