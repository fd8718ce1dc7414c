import { type Action, type Actor, actorName } from '#internal/access/index.ts'
import type { EventId, TenantId } from '#internal/base/index.ts'
import {
  cancelReplay,
  countOutcome,
  findReplaysOfEvent,
  listReplays,
  parseReplayId,
  previewReplay,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayPreview,
  readReplay,
  replayRateDefault,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import type { ReplayChanged } from './http-event-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import {
  defined,
  invalid,
  invalidRange,
  keyReused,
  noCallback,
  notFound,
  type Outcome,
  ok,
  readTypeFilter,
} from './outcome.ts'
import { listPage, type Page, type PageRequest } from './page.ts'
import type { SharedDeskParts, SharedUseCase } from './parts.ts'
import { ownTenant, reachAll, reachOwner, reachTenant, type TenantSelection } from './reach.ts'

/** Previews a replay: counts its events, exactly up to 10,000, and lists the first 20. */
const preview: SharedUseCase<ReplayFilter, ReplayPreview> = async (parts, actor, asked) => {
  const typed = readTypeFilter({ ...ownTenant(actor), ...asked })
  if (typed.kind !== 'ok') return typed
  const completed = await withReplayOf(parts, actor, typed.value)
  if (completed.kind !== 'ok') return completed
  const filter = completed.value
  const reached = await reachOwner(parts, actor, filter.tenantId, 'see')
  if (reached.kind !== 'ok') return reached
  if (filter.toMs !== undefined && filter.fromMs >= filter.toMs) return invalidRange
  return ok(await previewReplay(parts.readPool, filter, parts.clock.now()))
}

/** Starts a replay, which forwarders run as a job. */
const start: SharedUseCase<
  {
    /** A filter without a tenant covers the tenant of the key, or all tenants; these require the right to replay in the whole cluster. */
    readonly filter: ReplayFilter
    /** Default 50; 1 to 1,000. */
    readonly ratePerSecond?: number | undefined
    /** 1 to 255 characters. Requests with the same key return the same replay. */
    readonly idempotencyKey: string
  },
  ValueOf<typeof ReplayChanged>
> = async (parts, actor, asked) => {
  const { ratePerSecond = replayRateDefault, idempotencyKey } = asked
  const typed = readTypeFilter({ ...ownTenant(actor), ...asked.filter })
  if (typed.kind !== 'ok') return typed
  const completed = await withReplayOf(parts, actor, typed.value)
  if (completed.kind !== 'ok') return completed
  const filter = completed.value
  const reached = await reachOwner(parts, actor, filter.tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const isByTenant = actor.kind === 'tenantKey'
  const request = { filter, ratePerSecond, idempotencyKey, by: actorName(actor), isByTenant }
  const result = await startReplay(parts.readPool, request, parts.clock.now())
  switch (result.kind) {
    case 'started':
    case 'already_started':
      return ok({ replay: result.job, isNew: result.kind === 'started' })
    case 'conflict':
      return keyReused('This idempotency key was used for another replay: use a new one')
    case 'unknown_tenant':
      return notFound
    case 'no_callback':
      return noCallback
    case 'too_many':
      return { kind: 'tooMany', code: 'too_many_replays', problem: tooManyText(result, isByTenant) }
    case 'invalid':
      return invalid(result.problem, result.field)
  }
}

/** Returns why no further replay can start. Does not reveal to a tenant how many replays other tenants run. */
function tooManyText(
  { whose, max }: Extract<StartReplayResult, { kind: 'too_many' }>,
  isByTenant: boolean,
): string {
  if (whose === 'own') return `${max} of these replays are running: wait until one of them ends`
  return isByTenant
    ? 'No other replay can be started at the moment: try again in a few minutes'
    : `${max} replays are running: wait until one of them ends`
}

export async function readJob(
  parts: SharedDeskParts,
  actor: Actor,
  id: ReplayId,
  action: Action = 'see',
): Promise<Outcome<ReplayJob>> {
  const job = await readReplay(parts.pool, { id, ...ownTenant(actor) })
  const tenantId = job?.filter.tenantId
  const reached = await reachTenant(parts, actor, { tenantId, named: id }, action)
  if (job === undefined) return reached.kind === 'ok' ? notFound : reached
  if (reached.kind === 'ok') return ok(job)
  if (reached.kind !== 'notFound' || tenantId !== undefined) return reached
  // A replay of all tenants is visible only to actors that see all tenants.
  const seen = await reachAll(parts, actor)
  if (seen.kind !== 'ok') return seen.kind === 'forbidden' ? notFound : seen
  const all = await reachAll(parts, actor, action)
  return all.kind === 'ok' ? ok(job) : all
}

/** Reads a replay, with the current state of its first events. */
async function readCounted(parts: SharedDeskParts, actor: Actor, id: ReplayId): Promise<Outcome<ReplayJob>> {
  const reached = await readJob(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  return ok(await countOutcome(parts.readPool, reached.value, parts.clock.now()))
}

/** Adds the tenant of the replay `replayId` to a filter without a tenant. Refuses a `replayId` that the actor may not see. */
async function withReplayOf(
  parts: SharedDeskParts,
  actor: Actor,
  filter: ReplayFilter,
): Promise<Outcome<ReplayFilter>> {
  const { replayId, outcome, tenantId } = filter
  if (replayId === undefined) return outcome === undefined ? ok(filter) : outcomeAlone
  const job = await readJob(parts, actor, replayId)
  if (job.kind !== 'ok') return job.kind === 'notFound' ? unknownReplay : job
  return ok({ ...filter, ...defined({ tenantId: tenantId ?? job.value.filter.tenantId }) })
}

export const outcomeAlone = invalid('needs "replayId": the replay of which it is the outcome', 'outcome')
export const unknownReplay = invalid('names no replay that you can see', 'replayId')

/** Returns the replays that began delivery cycles of an event, by the number of the cycle. */
const ofEvent: SharedUseCase<
  { readonly id: EventId; readonly tenantId: TenantId },
  ReadonlyMap<number, ReplayId>
> = async (parts, actor, { id, tenantId }) => {
  const reached = await reachTenant(parts, actor, { tenantId, named: id })
  if (reached.kind !== 'ok') return reached
  // A replay of all tenants is visible only to actors that see all tenants.
  const isWide = actor.kind !== 'tenantKey' && (await reachAll(parts, actor)).kind === 'ok'
  return ok(await findReplaysOfEvent(parts.readPool, { id, tenantId, isWide }))
}

/** Newest first. */
const list: SharedUseCase<PageRequest & TenantSelection, Page<ReplayJob>> = (parts, actor, request) => {
  return listPage<ReplayJob, ReplayId>(parts, actor, request, {
    parse: parseReplayId,
    positionOf: ({ id }) => id,
    async read({ limit, after, ...owner }) {
      const { replays, next } = await listReplays(parts.pool, { limit, ...owner, ...defined({ after }) })
      return { items: replays, next }
    },
  })
}

/** Cancels a replay after its current step. `isNew` is false if the replay had already ended. */
async function cancel(
  parts: SharedDeskParts,
  actor: Actor,
  id: ReplayId,
): Promise<Outcome<ValueOf<typeof ReplayChanged>>> {
  const reached = await readJob(parts, actor, id, 'replay')
  if (reached.kind !== 'ok') return reached
  const result = await cancelReplay(parts.pool, { id, by: actorName(actor) })
  return result.kind === 'not_found'
    ? notFound
    : ok({ replay: result.job, isNew: result.kind === 'cancelled' })
}

export const replayCases = { preview, start, read: readCounted, ofEvent, list, cancel }
