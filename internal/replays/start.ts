import { isDeepStrictEqual } from 'node:util'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  type EventFilter,
  type EventScan,
  type EventSummary,
  hasCallbackText,
  lowestIdOf,
  rangeOf,
  scanBeyond,
  scanEvents,
} from '#internal/events/index.ts'
import { orm, type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import {
  askedFilterOf,
  createReplayId,
  isReplay,
  isReplayed,
  jobColumns,
  jobOf,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  storedFilterOf,
} from './job.ts'
import { withReplayedIds } from './outcome.ts'
import { replays } from './tables.ts'

export interface StartReplayRequest {
  readonly filter: ReplayFilter
  /** Events to queue per second, 1 to 1 000. */
  readonly ratePerSecond: number
  /** Actor for the audit log; 1 to 200 characters. */
  readonly by: string
  /** A repeat with this key returns the same replay. 1 to 255 characters, unique within the tenant. */
  readonly idempotencyKey: string
  /** True if a tenant replays its own events. Such a replay cannot use the slots that are reserved for the platform. Default: false. */
  readonly isByTenant?: boolean
}

/** `conflict`: the key belongs to another replay. `too_many`: the tenant (`own`) or all (`all`) have too many unfinished replays. */
export type StartReplayResult =
  | { readonly kind: 'started' | 'already_started'; readonly job: ReplayJob }
  | { readonly kind: 'conflict' | 'unknown_tenant' | 'no_callback' }
  | { readonly kind: 'too_many'; readonly whose: 'own' | 'all'; readonly max: number }
  | ({ readonly kind: 'invalid' } & InvalidReplay)

/** With `field`, `problem` completes the sentence that begins with the field: "must be …". */
interface InvalidReplay {
  readonly problem: string
  readonly field?: 'from'
}

/** Maximum unfinished replays of a tenant, and of those that cover all tenants. */
export const unfinishedPerTenantMax = 2
/** Maximum unfinished replays, without those that wait until the retries of their tenant are delivered. */
export const unfinishedMax = 20
/** Part of `unfinishedMax` that tenants cannot use for their own replays. */
const keptForPlatform = 5
/** Events per second of a replay whose request states no rate. */
export const replayRateDefault = 50
/** Maximum events per second: two steps per second, each with the maximum events per statement. */
export const replayRateMax = 1_000

const idsMax = 1_000
const textCharsMax = 200
const keyCharsMax = 255
/** Key of the advisory lock for starting replays, unique within this database. */
const advisoryLock = 7_205_759_403_792_797

/**
 * Starts the replay of all events that match a filter and were received until now. Forwarders process it. A repeat with the same
 * idempotency key, filter and rate returns the same replay. Writes an audit row in the same transaction. Requires a pool with
 * `eventReadSettings`.
 * @throws errors of Postgres; the replay may or may not have been started, and a repeat with the same key is safe
 */
export async function startReplay(
  pool: Pool,
  request: StartReplayRequest,
  nowMs: number,
): Promise<StartReplayResult> {
  const invalid = validate(request)
  if (invalid !== undefined) return { kind: 'invalid', ...invalid }
  const known = await findByKey(pool, request)
  if (known) return known
  const filter = await withReplayedIds(pool, request.filter, nowMs)
  if (filter.ids?.length === 0) return { kind: 'invalid', problem: 'No event of the earlier replay matches' }
  const { total } = await countMatching(pool, filter, nowMs)
  return await withTx(pool, async (client) => {
    // Serializes the starts of replays, so that each start counts all earlier replays.
    await client.query('SELECT pg_advisory_xact_lock($1)', [advisoryLock])
    const meanwhile = await findByKey(client, request)
    if (meanwhile) return meanwhile
    const refusal = await checkBounds(client, request)
    if (refusal) return refusal
    return { kind: 'started', job: await insertJob(client, request, { filter, total, nowMs }) }
  })
}

/** Cancels after the step in progress; queued events are still delivered. Audited. A repeat returns `ended`. @throws errors of Postgres */
export async function cancelReplay(
  pool: Pool,
  request: { readonly id: ReplayId; readonly tenantId?: TenantId; readonly by: string },
): Promise<
  { readonly kind: 'cancelled' | 'ended'; readonly job: ReplayJob } | { readonly kind: 'not_found' }
> {
  return await withTx(pool, async (client) => {
    const [cancelled] = await orm(client)
      .update(replays)
      .set({ state: 'cancelled', endedAt: sql`now()`, isWaiting: false })
      .where(and(isReplay(request), inArray(replays.state, ['queued', 'running'])))
      .returning(jobColumns)
    if (cancelled) {
      await writeAudit(client, {
        actor: request.by,
        action: 'replays.cancelled',
        tenantId: cancelled.filter.tenantId ?? null,
        detail: { replayId: request.id },
      })
      return { kind: 'cancelled', job: jobOf(cancelled) }
    }
    const [row] = await orm(client).select(jobColumns).from(replays).where(isReplay(request))
    return row ? { kind: 'ended', job: jobOf(row) } : { kind: 'not_found' }
  })
}

/** Preview of the events that a replay would examine. */
export interface ReplayPreview {
  readonly total: ReplayCount
  /** At most 20 events, oldest first. */
  readonly examples: readonly EventSummary[]
  /** Latest event; undefined if the limited search does not find it. */
  readonly newest: EventSummary | undefined
}

/** Maximum events that are counted exactly. */
const countMax = 10_000
const stepRows = 1_000
const stepExamined = 10_000
/** Maximum scans per preview. A preview that needs more scans, since no index covers its filter, returns a lower bound as count. */
const stepsMax = 12
/** Maximum events that a preview lists. */
export const previewedEventsMax = 20
/** Maximum matching events that are read to find the latest event whose delivery cycle is not in progress. */
const newestRows = 100

/**
 * Counts the events that a replay would examine: exactly up to 10 000, with limited work. Also returns the first events. The replay can
 * skip some of the counted events; it also queues events that wait for a pull, which are not counted. Requires a pool with
 * `eventReadSettings`. Takes no locks.
 */
export async function previewReplay(pool: Pool, asked: ReplayFilter, nowMs: number): Promise<ReplayPreview> {
  return await countMatching(pool, await withReplayedIds(pool, asked, nowMs), nowMs)
}

async function countMatching(pool: Pool, filter: ReplayFilter, nowMs: number): Promise<ReplayPreview> {
  const toMs = Math.min(filter.toMs ?? nowMs, nowMs)
  const bounded: EventFilter = { ...filter, toMs }
  const common = { filter: bounded, range: rangeOf(bounded, nowMs), examinedMax: stepExamined }
  let scan: EventScan = { ...common, order: 'oldest', rowsMax: stepRows }
  const examples: EventSummary[] = []
  let count = 0
  let isExact = false
  for (let step = 0; step < stepsMax && count < countMax && !isExact; step += 1) {
    const { events, searchedTo } = await scanEvents(pool, scan)
    const matching = events.filter((event) => event.state !== 'accepted' && isReplayed(event))
    count += matching.length
    examples.push(...matching.slice(0, previewedEventsMax - examples.length))
    if (searchedTo === undefined) isExact = true
    else scan = scanBeyond(scan, searchedTo)
  }
  const latest = await scanEvents(pool, { ...common, order: 'newest', rowsMax: newestRows })
  const newest = latest.events.find((event) => event.state !== 'accepted' && isReplayed(event))
  return { total: { count, isExact }, examples, newest }
}

function validate({
  filter,
  ratePerSecond,
  by,
  idempotencyKey,
}: StartReplayRequest): InvalidReplay | undefined {
  const { fromMs, toMs = Number.POSITIVE_INFINITY, ids, state } = filter
  const isText = (text: string, charsMax: number) =>
    text.length >= 1 && text.length <= charsMax && text.isWellFormed()
  if (!Number.isInteger(ratePerSecond) || ratePerSecond < 1 || ratePerSecond > replayRateMax)
    return { problem: `The rate must be 1 to ${replayRateMax} events per second` }
  if (!(fromMs < toMs)) return { field: 'from', problem: 'must be before the end' }
  if (ids && (ids.length < 1 || ids.length > idsMax))
    return { problem: `A filter must contain 1 to ${idsMax} ids` }
  if ((state as string) === 'accepted')
    return { problem: 'Accepted events are still being delivered and cannot be replayed' }
  if (!isText(by, textCharsMax)) return { problem: `The actor must have 1 to ${textCharsMax} characters` }
  if (!isText(idempotencyKey, keyCharsMax))
    return { problem: `The idempotency key must have 1 to ${keyCharsMax} characters` }
  return undefined
}

/** Returns `conflict` if the key was used with another filter or rate. */
async function findByKey(
  connection: Pool | PoolClient,
  { filter, ratePerSecond, idempotencyKey }: StartReplayRequest,
): Promise<StartReplayResult | undefined> {
  const isTenants = sql`${replays.tenantId} IS NOT DISTINCT FROM ${filter.tenantId ?? null}`
  const [row] = await orm(connection)
    .select(jobColumns)
    .from(replays)
    .where(and(isTenants, eq(replays.idempotencyKey, idempotencyKey)))
  if (row === undefined) return undefined
  // Compares the filters as requested: completing them again could select other events, because outcomes change.
  const isSame =
    isDeepStrictEqual(askedFilterOf(row.filter), withoutUndefined(filter)) &&
    row.ratePerSecond === ratePerSecond
  return isSame ? { kind: 'already_started', job: jobOf(row) } : { kind: 'conflict' }
}

/** Drops undefined members, which the stored JSON does not contain either. */
function withoutUndefined(filter: ReplayFilter): unknown {
  return JSON.parse(JSON.stringify(filter))
}

// Reads few rows, with the index over unfinished replays. The caller holds the advisory lock.
async function checkBounds(
  client: PoolClient,
  { filter, isByTenant = false }: StartReplayRequest,
): Promise<StartReplayResult | undefined> {
  const { rows } = await client.query<[isKnown: boolean, hasCallback: boolean, own: number, busy: number]>({
    text: `SELECT $1::text IS NULL OR EXISTS (SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL),
        $1::text IS NULL OR EXISTS (SELECT FROM tenants WHERE id = $1 AND ${hasCallbackText()}),
        count(*) FILTER (WHERE tenant_id IS NOT DISTINCT FROM $1), count(*) FILTER (WHERE NOT is_waiting)
      FROM replays WHERE state IN ('queued', 'running')`,
    rowMode: 'array',
    values: [filter.tenantId ?? null],
  })
  const [isKnown, hasCallback, own, busy] = rows[0] ?? [false, false, 0, 0]
  if (!isKnown) return { kind: 'unknown_tenant' }
  if (!hasCallback) return { kind: 'no_callback' }
  if (own >= unfinishedPerTenantMax) return { kind: 'too_many', whose: 'own', max: unfinishedPerTenantMax }
  const max = isByTenant ? unfinishedMax - keptForPlatform : unfinishedMax
  return busy >= max ? { kind: 'too_many', whose: 'all', max } : undefined
}

async function insertJob(
  client: PoolClient,
  { filter: asked, ratePerSecond, by, idempotencyKey }: StartReplayRequest,
  {
    filter,
    total,
    nowMs,
  }: { readonly filter: ReplayFilter; readonly total: ReplayCount; readonly nowMs: number },
): Promise<ReplayJob> {
  const id = createReplayId(nowMs)
  const tenantId = filter.tenantId ?? null
  const [row] = await orm(client)
    .insert(replays)
    .values({
      id,
      idempotencyKey,
      tenantId,
      filter: storedFilterOf(filter, asked),
      ratePerSecond,
      requestedBy: by,
      state: 'queued',
      totalCount: total.count,
      totalIsExact: total.isExact,
      endsBefore: lowestIdOf(Math.min(filter.toMs ?? nowMs, nowMs)),
      createdAt: sql`now()`,
      nextStepAt: sql`now()`,
      notifyAt: tenantId === null ? null : sql`now()`,
    })
    .returning(jobColumns)
  if (row === undefined) throw new Error('INSERT INTO replays returned no row')
  const { ids, ...rest } = filter
  const detail = { replayId: id, ratePerSecond, total, filter: { ...rest, ids: ids?.length } }
  await writeAudit(client, { actor: by, action: 'replays.started', tenantId, detail })
  return jobOf(row)
}
