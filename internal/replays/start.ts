import { isDeepStrictEqual } from 'node:util'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  type EventFilter,
  type EventScan,
  type EventSummary,
  lowestIdOf,
  rangeOf,
  scanBeyond,
  scanEvents,
} from '#internal/events/index.ts'
import { orm, type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import {
  createReplayId,
  isReplay,
  jobOf,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
} from './job.ts'
import { replays } from './tables.ts'

/** Request to start a replay. */
export interface StartReplayRequest {
  readonly filter: ReplayFilter
  /** Events that are queued per second, 1 to 1 000. */
  readonly ratePerSecond: number
  /** Actor for the audit log; 1 to 200 characters. */
  readonly by: string
  /** Makes repeats the same replay; 1 to 200 characters, unique within the tenant. */
  readonly idempotencyKey: string
  /** Started by a tenant for its own events, which may not use the places kept for the platform. Default false. */
  readonly isByTenant?: boolean
}

/**
 * Result of starting a replay. `conflict`: the key was used for another one. `too_many`: others have to end first, of the same
 * tenant (`own`) or of any (`all`).
 */
export type StartReplayResult =
  | { readonly kind: 'started' | 'already_started'; readonly job: ReplayJob }
  | { readonly kind: 'conflict' | 'unknown_tenant' }
  | { readonly kind: 'too_many'; readonly whose: 'own' | 'all'; readonly max: number }
  | { readonly kind: 'invalid'; readonly problem: string }

/** Result of cancelling a replay; `ended`: it had ended before. */
export type CancelReplayResult =
  | { readonly kind: 'cancelled' | 'ended'; readonly job: ReplayJob }
  | { readonly kind: 'not_found' }

/** Unfinished replays of a tenant, or of all tenants together. */
export const unfinishedPerTenantMax = 2
/** Unfinished replays in all; those that wait for their tenant are not counted. */
export const unfinishedMax = 20
/** Number reserved for the platform when tenants start their own. */
const keptForPlatform = 5
/** Two steps per second of as many events as one statement may hold. */
export const replayRateMax = 1_000

const idsMax = 1_000
const textCharsMax = 200
/** Advisory lock number, unique within this database. */
const advisoryLock = 7_205_759_403_792_797

/**
 * Starts the replay of all events that match a filter and were received until now; forwarders work on it. Repeating it with the
 * same key and contents returns the same one. Writes an audit row in the same transaction. Give it a pool with `eventReadSettings`.
 * @throws what Postgres throws; then it was not started, or a repeat finds it
 */
export async function startReplay(
  pool: Pool,
  request: StartReplayRequest,
  nowMs: number,
): Promise<StartReplayResult> {
  const problem = validate(request)
  if (problem !== undefined) return { kind: 'invalid', problem }
  const known = await findByKey(pool, request)
  if (known) return sameOr(known, request)
  const { count } = await previewReplay(pool, request.filter, nowMs)
  return await withTx(pool, async (client) => {
    // Starts run one after the other, so that each counts those before it.
    await client.query('SELECT pg_advisory_xact_lock($1)', [advisoryLock])
    const meanwhile = await findByKey(client, request)
    if (meanwhile) return sameOr(meanwhile, request)
    const refusal = await checkBounds(client, request)
    if (refusal) return refusal
    return { kind: 'started', job: await insertJob(client, request, { count, nowMs }) }
  })
}

/**
 * Cancels a replay after the step in progress; events that it queued are delivered. Writes an audit row. Repeating it returns `ended`.
 * @throws what Postgres throws
 */
export async function cancelReplay(
  pool: Pool,
  request: { readonly id: ReplayId; readonly tenantId?: TenantId; readonly by: string },
): Promise<CancelReplayResult> {
  return await withTx(pool, async (client) => {
    const [cancelled] = await orm(client)
      .update(replays)
      .set({ state: 'cancelled', endedAt: sql`now()`, isWaiting: false })
      .where(and(isReplay(request), inArray(replays.state, ['queued', 'running'])))
      .returning()
    if (cancelled) {
      await writeAudit(client, {
        ...{ actor: request.by, action: 'replays.cancelled' },
        tenantId: cancelled.filter.tenantId ?? null,
        detail: { replay: request.id },
      })
      return { kind: 'cancelled', job: jobOf(cancelled) }
    }
    const [row] = await orm(client).select().from(replays).where(isReplay(request))
    return row ? { kind: 'ended', job: jobOf(row) } : { kind: 'not_found' }
  })
}

/** Events that a replay would examine. */
export interface ReplayPreview {
  readonly count: ReplayCount
  /** The first 20, oldest first. */
  readonly examples: readonly EventSummary[]
  /** The latest one, where it is found within the bound. */
  readonly newest: EventSummary | undefined
}

/** Events that are counted exactly. */
const countMax = 10_000
const stepRows = 1_000
const stepExamined = 10_000
/** Bounds the work where no index covers the filter; the count is a lower bound then. */
const stepsMax = 12
const examplesMax = 20
/** Examined for the latest one: those before it may have a delivery cycle in progress. */
const newestRows = 100

/**
 * Counts the events that a replay would examine, exactly up to 10 000 and with bounded work, and returns the first. Some of them may
 * still be skipped. Give it a pool with `eventReadSettings`. A read, no locks.
 */
export async function previewReplay(pool: Pool, filter: ReplayFilter, nowMs: number): Promise<ReplayPreview> {
  const toMs = Math.min(filter.toMs ?? nowMs, nowMs)
  const bounded: EventFilter = { ...filter, toMs }
  const common = { filter: bounded, range: rangeOf(bounded, nowMs), examinedMax: stepExamined }
  let scan: EventScan = { ...common, order: 'oldest', rowsMax: stepRows }
  const examples: EventSummary[] = []
  let count = 0
  let isExact = false
  for (let step = 0; step < stepsMax && count < countMax && !isExact; step += 1) {
    const { events, searchedTo } = await scanEvents(pool, scan)
    const matching = events.filter(({ state }) => state !== 'accepted')
    count += matching.length
    examples.push(...matching.slice(0, examplesMax - examples.length))
    if (searchedTo === undefined) isExact = true
    else scan = scanBeyond(scan, searchedTo)
  }
  const latest = await scanEvents(pool, { ...common, order: 'newest', rowsMax: newestRows })
  const newest = latest.events.find(({ state }) => state !== 'accepted')
  return { count: { count, isExact }, examples, newest }
}

/** Returns what is wrong with a request, for its caller. Pure. */
function validate({ filter, ratePerSecond, by, idempotencyKey }: StartReplayRequest): string | undefined {
  const { fromMs, toMs = Number.POSITIVE_INFINITY, ids, state } = filter
  const isText = (text: string) => text.length >= 1 && text.length <= textCharsMax && text.isWellFormed()
  if (!Number.isInteger(ratePerSecond) || ratePerSecond < 1 || ratePerSecond > replayRateMax)
    return `the rate is 1 to ${replayRateMax} events a second`
  if (!(fromMs < toMs)) return 'the time it begins at has to lie before the one it ends at'
  if (ids && (ids.length < 1 || ids.length > idsMax)) return `ids are 1 to ${idsMax}`
  if ((state as string) === 'accepted') return 'accepted events are on their way: there is nothing to replay'
  if (!isText(by)) return `who asks is a text of 1 to ${textCharsMax} characters`
  if (!isText(idempotencyKey)) return `the idempotency key is a text of 1 to ${textCharsMax} characters`
  return undefined
}

async function findByKey(
  connection: Pool | PoolClient,
  { filter, idempotencyKey }: StartReplayRequest,
): Promise<ReplayJob | undefined> {
  const isTenants = sql`${replays.tenantId} IS NOT DISTINCT FROM ${filter.tenantId ?? null}`
  const rows = await orm(connection)
    .select()
    .from(replays)
    .where(and(isTenants, eq(replays.idempotencyKey, idempotencyKey)))
  return rows.map(jobOf)[0]
}

function sameOr(job: ReplayJob, { filter, ratePerSecond }: StartReplayRequest): StartReplayResult {
  // As stored, without undefined members.
  const stored: unknown = JSON.parse(JSON.stringify(filter))
  const isSame = isDeepStrictEqual(job.filter, stored) && job.ratePerSecond === ratePerSecond
  return isSame ? { kind: 'already_started', job } : { kind: 'conflict' }
}

// Few rows, by the index over unfinished replays. The caller holds the lock.
async function checkBounds(
  client: PoolClient,
  { filter, isByTenant = false }: StartReplayRequest,
): Promise<StartReplayResult | undefined> {
  const { rows } = await client.query<[isKnown: boolean, own: number, busy: number]>({
    text: `SELECT $1::text IS NULL OR EXISTS (SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL),
        count(*) FILTER (WHERE tenant_id IS NOT DISTINCT FROM $1), count(*) FILTER (WHERE NOT is_waiting)
      FROM replays WHERE state IN ('queued', 'running')`,
    rowMode: 'array',
    values: [filter.tenantId ?? null],
  })
  const [isKnown, own, busy] = rows[0] ?? [false, 0, 0]
  if (!isKnown) return { kind: 'unknown_tenant' }
  if (own >= unfinishedPerTenantMax) return { kind: 'too_many', whose: 'own', max: unfinishedPerTenantMax }
  const max = isByTenant ? unfinishedMax - keptForPlatform : unfinishedMax
  return busy >= max ? { kind: 'too_many', whose: 'all', max } : undefined
}

async function insertJob(
  client: PoolClient,
  { filter, ratePerSecond, by, idempotencyKey }: StartReplayRequest,
  { count, nowMs }: { readonly count: ReplayCount; readonly nowMs: number },
): Promise<ReplayJob> {
  const id = createReplayId(nowMs)
  const tenantId = filter.tenantId ?? null
  const [row] = await orm(client)
    .insert(replays)
    .values({
      ...{ id, idempotencyKey, tenantId, filter, ratePerSecond, requestedBy: by, state: 'queued' },
      ...{ totalCount: count.count, totalIsExact: count.isExact },
      endsBefore: lowestIdOf(Math.min(filter.toMs ?? nowMs, nowMs)),
      ...{ createdAt: sql`now()`, nextStepAt: sql`now()` },
    })
    .returning()
  if (row === undefined) throw new Error('INSERT INTO replays returned no row')
  const { ids, ...rest } = filter
  const detail = { replay: id, ratePerSecond, total: count, filter: { ...rest, ids: ids?.length } }
  await writeAudit(client, { actor: by, action: 'replays.started', tenantId, detail })
  return jobOf(row)
}
