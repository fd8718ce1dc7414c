import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  acknowledgeEvents,
  deleteSubscription,
  type EventPages,
  extendLease,
  type LeaseResult,
  type LeaseToken,
  listSubscriptions,
  type PulledEvent,
  pullOrWait,
  readSubscription,
  releaseEvents,
  type Subscription,
  type SubscriptionPlace,
  seekSubscription,
  type WaitingPull,
  type WrittenSubscription,
  writeSubscription,
} from '#internal/subscriptions/index.ts'
import type { Done } from './http-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import type { EventsPulled, SubscriptionChanged } from './http-subscription-answers.ts'
import { conflict, notFound, type Outcome, ok, overloaded } from './outcome.ts'
import type { SharedDeskParts, SharedUseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

const list: SharedUseCase<TenantId, { readonly items: readonly Subscription[] }> = async (
  parts,
  actor,
  tenantId,
) => {
  const reached = await reachTenant(parts, actor, tenantId)
  return reached.kind === 'ok' ? ok({ items: await listSubscriptions(parts.pool, tenantId) }) : reached
}

const read: SharedUseCase<SubscriptionPlace, Subscription> = async (parts, actor, place) => {
  const reached = await reachTenant(parts, actor, place.tenantId)
  if (reached.kind !== 'ok') return reached
  const found = await readSubscription(parts.pool, place)
  return found ? ok(found) : notFound
}

const write: SharedUseCase<WrittenSubscription, ValueOf<typeof SubscriptionChanged>> = async (
  parts,
  actor,
  wanted,
) => {
  const reached = await reachTenant(parts, actor, wanted.tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const result = await writeSubscription(parts.pool, wanted)
  switch (result.kind) {
    case 'unknown_tenant':
      return notFound
    case 'too_many':
      return conflict(`A tenant can have ${result.max} subscriptions: delete one first`)
    case 'lasting':
      return conflict(
        'This subscription has no deleteAfterIdleDays and cannot get it: use another name, or delete the subscription first',
      )
    case 'unchanged':
      return ok({ subscription: result.subscription, isNew: false })
    case 'created':
    case 'changed': {
      const { providers, types, name } = wanted
      await audit(parts, actor, wanted, 'subscriptions.written', { name, providers, types })
      for (const deleted of result.kind === 'created' ? result.deleted : [])
        await audit(parts, actor, wanted, 'subscriptions.deleted', { name: deleted, cause: 'unused' })
      return ok({ subscription: result.subscription, isNew: true })
    }
  }
}

const seek: SharedUseCase<
  SubscriptionPlace & {
    readonly fromMs?: number | undefined
  },
  Subscription
> = async (parts, actor, { fromMs, ...place }) => {
  const reached = await reachTenant(parts, actor, place.tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const moved = await seekSubscription(parts.pool, place, fromMs)
  if (!moved) return notFound
  const from = fromMs === undefined ? null : new Date(fromMs).toISOString()
  await audit(parts, actor, place, 'subscriptions.moved', { name: place.name, from })
  return ok(moved)
}

const remove: SharedUseCase<SubscriptionPlace, { readonly existed: boolean }> = async (
  parts,
  actor,
  place,
) => {
  const reached = await reachTenant(parts, actor, place.tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const existed = await deleteSubscription(parts.pool, place)
  if (existed) await audit(parts, actor, place, 'subscriptions.deleted', { name: place.name })
  return ok({ existed })
}

/** Returns events under a lease, or waits for them. Checks rights again after a wait. Writes an audit entry before it returns payloads. */
const pull: SharedUseCase<WaitingPull, ValueOf<typeof EventsPulled>> = async (parts, actor, request) => {
  const reach = () => reachTenant(parts, actor, request.tenantId, 'pull')
  let reached = await reach()
  if (reached.kind !== 'ok') return reached
  const aside: WaitingPull['aside'] = async (wait) => {
    const goesOn = await request.aside(wait)
    reached = await reach()
    return goesOn && reached.kind === 'ok'
  }
  const result = await pullOrWait({ ...parts, pool: parts.readPool }, { ...request, aside })
  if (reached.kind !== 'ok') return reached
  if (result.kind === 'unknown') return notFound
  if (result.kind === 'too_many') return overloaded
  if (result.kind !== 'pulled') return restored
  const { events, ackToken, hasMore, availableAtMs } = result
  await auditPayloads(parts, actor, request, events)
  return ok({ events, hasMore, ackToken, availableAtMs: availableAtMs ?? undefined })
}

/** Opens a stream of events, and writes an audit entry for each page before it returns the payloads. */
const stream: SharedUseCase<
  SubscriptionPlace & {
    /** Id of the last event that the caller has handled. Empty without one. */
    readonly lastStreamId: string
  },
  EventPages
> = async (parts, actor, { lastStreamId, ...place }) => {
  const reach = () => reachTenant(parts, actor, place.tenantId, 'pull')
  const isAllowed = async () => (await reach()).kind === 'ok'
  const reached = await reach()
  if (reached.kind !== 'ok') return reached
  const opened =
    (await parts.streams?.open({ ...place, lastStreamId, isAllowed })) ?? ({ kind: 'too_many' } as const)
  switch (opened.kind) {
    case 'opened':
      return ok({ pages: audited(parts, actor, place, opened.pages), close: opened.close })
    case 'unknown':
      return notFound
    case 'too_many':
      return overloaded
    case 'beyond_end':
      return restored
    case 'held':
      return conflict(
        `Another stream or a pull holds the lease until ${new Date(opened.availableAtMs).toISOString()}`,
      )
  }
}

async function* audited(
  parts: SharedDeskParts,
  actor: Actor,
  place: SubscriptionPlace,
  pages: EventPages['pages'],
): EventPages['pages'] {
  for await (const page of pages) {
    const events = page.events.map(({ event }) => event)
    await auditPayloads(parts, actor, place, events)
    yield page
  }
}

/** Writes the audit entry of pulled payloads. Must be called before the payloads are returned. */
async function auditPayloads(
  parts: SharedDeskParts,
  actor: Actor,
  place: SubscriptionPlace,
  events: readonly PulledEvent[],
): Promise<void> {
  const [first, last] = [events.at(0), events.at(-1)]
  if (!first || !last) return
  const range = { count: events.length, firstEventId: first.id, lastEventId: last.id }
  const detail = { subscription: place.name, ...range }
  await audit(parts, actor, place, 'payloads.pulled', detail)
}

const restored = conflict('The database was restored since the last pull: move the subscription to a time')

const acknowledge: SharedUseCase<LeaseToken, Done> = (parts, actor, token) =>
  withToken(parts, actor, token, () => acknowledgeEvents(parts.readPool, token, parts.clock.now()))

/** Releases leased events: a pull returns them again after the delay. */
const release: SharedUseCase<LeaseToken & { readonly delaySeconds: number }, Done> = (
  parts,
  actor,
  request,
) => withToken(parts, actor, request, () => releaseEvents(parts.pool, request, request.delaySeconds))

const extend: SharedUseCase<LeaseToken & { readonly leaseSeconds: number }, Done> = (parts, actor, request) =>
  withToken(parts, actor, request, () => extendLease(parts.pool, request, request.leaseSeconds))

async function withToken(
  parts: SharedDeskParts,
  actor: Actor,
  { tenantId }: LeaseToken,
  work: () => Promise<LeaseResult | 'unfinished'>,
): Promise<Outcome<Done>> {
  const reached = await reachTenant(parts, actor, tenantId, 'pull')
  if (reached.kind !== 'ok') return reached
  const result = await work()
  if (result === 'unknown') return notFound
  // Responds `overloaded`, so that the client repeats the request, which then continues the acknowledgement.
  if (result === 'unfinished') return overloaded
  if (result === 'lost')
    return conflict(
      'This token is no longer valid: the events were leased again, or the subscription was moved or changed',
    )
  return ok({ isNew: result === 'done' })
}

async function audit(
  { pool, clock }: SharedDeskParts,
  actor: Actor,
  { tenantId }: SubscriptionPlace,
  action: Parameters<typeof writeAudit>[1]['action'],
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  await writeAudit(pool, { actor: actorName(actor), action, tenantId, detail }, clock.now())
}

export const subscriptionCases = {
  list,
  read,
  write,
  seek,
  remove,
  pull,
  stream,
  acknowledge,
  release,
  extend,
}
