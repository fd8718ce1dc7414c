import { type Action, type Actor, actorName } from '#internal/access/index.ts'
import {
  cancelReplay,
  listReplays,
  parseReplayId,
  previewReplay,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayPreview,
  readReplay,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import { attempt } from './attempt.ts'
import { listInScope } from './merge-pages.ts'
import {
  conflict,
  cursorOf,
  invalid,
  limitOf,
  notFound,
  type Outcome,
  ok,
  type Page,
  type PageRequest,
} from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachAll, reachList, reachOwner, reachTenant, type Whose } from './reach.ts'

/** What a replay is started with. */
export interface ReplayStart {
  /** Without a tenant: all of them, for which the right to replay has to be for the whole cluster. */
  readonly filter: ReplayFilter
  /** 1 to 1 000, default 50. */
  readonly ratePerSecond?: number | undefined
  /** Makes repeats the same replay: 1 to 200 characters. */
  readonly idempotencyKey: string
}

/** What came of starting one; `isNew` is false for a repeat. */
export interface ReplayStarted {
  readonly job: ReplayJob
  readonly isNew: boolean
}

/** Replays of many events, each a job that forwarders work on. */
export interface ReplayDesk {
  /** What it would take up: a count, exact to 10 000, and the first 20. */
  preview(actor: Actor, filter: ReplayFilter): Promise<Outcome<ReplayPreview>>
  start(actor: Actor, start: ReplayStart): Promise<Outcome<ReplayStarted>>
  read(actor: Actor, id: ReplayId): Promise<Outcome<ReplayJob>>
  /** Newest first. */
  list(actor: Actor, request: PageRequest & Whose): Promise<Outcome<Page<ReplayJob>>>
  /** Ends it after the step under way. `isNew` is false where it had ended before. */
  cancel(actor: Actor, id: ReplayId): Promise<Outcome<ReplayStarted>>
}

const rateDefault = 50

/** Makes the use cases of replays. */
export function createReplayDesk(parts: BackofficeParts): ReplayDesk {
  return {
    preview: (actor, filter) => attempt(parts, () => preview(parts, actor, filter)),
    start: (actor, start) => attempt(parts, () => startJob(parts, actor, start)),
    read: (actor, id) => attempt(parts, () => reachReplay(parts, actor, id, 'see')),
    list: (actor, request) => attempt(parts, () => list(parts, actor, request)),
    cancel: (actor, id) => attempt(parts, () => cancel(parts, actor, id)),
  }
}

async function preview(
  parts: BackofficeParts,
  actor: Actor,
  filter: ReplayFilter,
): Promise<Outcome<ReplayPreview>> {
  const reached = await reachOwner(parts, actor, filter.tenantId, 'see')
  if (reached.kind !== 'ok') return reached
  if (filter.toMs !== undefined && filter.fromMs >= filter.toMs)
    return invalid('The time it begins at has to lie before the one it ends at')
  return ok(await previewReplay(parts.readPool, filter, parts.clock.now()))
}

async function startJob(
  parts: BackofficeParts,
  actor: Actor,
  { filter, ratePerSecond = rateDefault, idempotencyKey }: ReplayStart,
): Promise<Outcome<ReplayStarted>> {
  const reached = await reachOwner(parts, actor, filter.tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const isByTenant = actor.kind === 'tenantKey'
  const request = { filter, ratePerSecond, idempotencyKey, by: actorName(actor), isByTenant }
  const result = await startReplay(parts.readPool, request, parts.clock.now())
  switch (result.kind) {
    case 'started':
    case 'already_started':
      return ok({ job: result.job, isNew: result.kind === 'started' })
    case 'conflict':
      return conflict('This idempotency key was used for another replay: use a new one')
    case 'unknown_tenant':
      return notFound
    case 'too_many':
      return { kind: 'tooMany', problem: tooManyText(result, isByTenant) }
    case 'invalid':
      return invalid(sentence(result.problem))
  }
}

/** How many others have is nothing that a tenant is told. */
function tooManyText(
  { whose, max }: Extract<StartReplayResult, { kind: 'too_many' }>,
  isByTenant: boolean,
): string {
  if (whose === 'own') return `${max} of these replays are under way: wait until one of them ends`
  return isByTenant
    ? 'No other replay can be started now: try again in some minutes'
    : `${max} replays are under way: wait until one of them ends`
}

async function reachReplay(
  parts: BackofficeParts,
  actor: Actor,
  id: ReplayId,
  action: Action,
): Promise<Outcome<ReplayJob>> {
  const own = actor.kind === 'tenantKey' ? { tenantId: actor.tenantId } : {}
  const job = await readReplay(parts.pool, { id, ...own })
  const tenantId = job?.filter.tenantId
  const reached = await reachTenant(parts, actor, { tenantId, named: id }, action)
  if (job === undefined) return reached.kind === 'ok' ? notFound : reached
  if (reached.kind === 'ok') return ok(job)
  if (reached.kind !== 'notFound' || tenantId !== undefined) return reached
  // One of all tenants is seen by those only who see all.
  const seen = await reachAll(parts, actor)
  if (seen.kind !== 'ok') return seen.kind === 'forbidden' ? notFound : seen
  const all = await reachAll(parts, actor, action)
  return all.kind === 'ok' ? ok(job) : all
}

async function list(
  parts: BackofficeParts,
  actor: Actor,
  request: PageRequest & Whose,
): Promise<Outcome<Page<ReplayJob>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const after = cursorOf(request, parseReplayId)
  if (after.kind !== 'ok') return after
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  const asked = { limit: limit.value, ...(after.value !== undefined && { after: after.value }) }
  const page = await listInScope<ReplayJob, string>(scope.value, {
    limit: limit.value,
    positionOf: ({ id }) => id,
    async list(tenantId) {
      const { replays, next } = await listReplays(parts.pool, { ...asked, ...(tenantId && { tenantId }) })
      return { items: replays, next }
    },
  })
  return ok(page)
}

async function cancel(parts: BackofficeParts, actor: Actor, id: ReplayId): Promise<Outcome<ReplayStarted>> {
  const reached = await reachReplay(parts, actor, id, 'replay')
  if (reached.kind !== 'ok') return reached
  const result = await cancelReplay(parts.pool, { id, by: actorName(actor) })
  return result.kind === 'not_found' ? notFound : ok({ job: result.job, isNew: result.kind === 'cancelled' })
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}
