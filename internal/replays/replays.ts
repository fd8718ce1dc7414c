import { isDeepStrictEqual } from 'node:util'
import type { TenantId } from '#internal/base/index.ts'
import { lowestIdOf, type Queryable } from '#internal/events/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { insertReplayAudit } from './replay-audit.ts'
import {
  createReplayId,
  type JobRow,
  jobColumns,
  jobOf,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
} from './replay-job.ts'
import { previewReplay } from './replay-preview.ts'

/** What a replay is started with. */
export interface StartReplayRequest {
  readonly filter: ReplayFilter
  /** Events that are queued a second, 1 to 1 000. */
  readonly ratePerSecond: number
  /** Who asks, for the audit; 1 to 200 characters. */
  readonly by: string
  /** Makes repeats the same replay; 1 to 200 characters, its tenant's own. */
  readonly idempotencyKey: string
  /** A tenant asks for its own, and takes none of the places that are kept for the platform. Default false. */
  readonly isByTenant?: boolean
}

/**
 * What came of starting one. `conflict`: the key was used for another one. `too_many`: others have to end first, `own` of the same
 * tenant or any of `all`.
 */
export type StartReplayResult =
  | { readonly kind: 'started' | 'already_started'; readonly job: ReplayJob }
  | { readonly kind: 'conflict' | 'unknown_tenant' }
  | { readonly kind: 'too_many'; readonly whose: 'own' | 'all'; readonly max: number }
  | { readonly kind: 'invalid'; readonly problem: string }

/** What came of cancelling one; `ended`: it had ended before. */
export type CancelReplayResult =
  | { readonly kind: 'cancelled' | 'ended'; readonly job: ReplayJob }
  | { readonly kind: 'not_found' }

/** Replays of a tenant, or of all tenants together, that may be under way at a time. */
export const unfinishedPerTenantMax = 2
/** All replays that may be under way at a time before another one is started; one that waits for its tenant holds up nobody. */
export const unfinishedMax = 20
/** Of these, what is left to the platform when tenants start their own. */
const keptForPlatform = 5
/** Two steps a second of as many events as one statement may hold. */
export const replayRateMax = 1_000

const idsMax = 1_000
const textCharsMax = 200
/** Any constant serves, as long as nothing else in this database locks the same number. */
const advisoryLock = 7_205_759_403_792_797

/**
 * Starts the replay of all events that a filter means and that were received until now; forwarders work on it. Repeating it with
 * the same key and contents gives the same one. Leaves an audit row with the deed. Give it a pool with `eventReadSettings`.
 * @throws whatever Postgres throws; then it was not started, or a repeat finds it
 */
export async function startReplay(
  pool: Pool,
  request: StartReplayRequest,
  nowMs: number,
): Promise<StartReplayResult> {
  const problem = problemOf(request)
  if (problem !== undefined) return { kind: 'invalid', problem }
  const known = await findByKey(pool, request)
  if (known) return sameOr(known, request)
  const { count } = await previewReplay(pool, request.filter, nowMs)
  return await withTx(pool, async (client) => {
    // Whoever starts one waits for whoever else does, so that nobody counts one too few.
    await client.query('SELECT pg_advisory_xact_lock($1)', [advisoryLock])
    const meanwhile = await findByKey(client, request)
    if (meanwhile) return sameOr(meanwhile, request)
    const refusal = await refusalOf(client, request)
    if (refusal) return refusal
    return { kind: 'started', job: await insertJob(client, request, { count, nowMs }) }
  })
}

/**
 * Ends a replay after the step under way. What it has queued is delivered. Leaves an audit row. Repeating it says `ended`.
 * @throws whatever Postgres throws
 */
export async function cancelReplay(
  pool: Pool,
  request: { readonly id: ReplayId; readonly tenantId?: TenantId; readonly by: string },
): Promise<CancelReplayResult> {
  const { id, tenantId, by } = request
  const whose = `id = $1 AND ($2::text IS NULL OR tenant_id = $2)`
  return await withTx(pool, async (client) => {
    const read = async (text: string) => {
      const { rows } = await client.query<JobRow>({ text, rowMode: 'array', values: [id, tenantId ?? null] })
      return rows.map(jobOf)[0]
    }
    const cancelled = await read(
      `UPDATE replays SET state = 'cancelled', ended_at = now(), is_waiting = false
       WHERE ${whose} AND state IN ('queued', 'running') RETURNING ${jobColumns}`,
    )
    if (cancelled) {
      const entry = { actor: by, tenantId: cancelled.filter.tenantId ?? null, detail: { replay: id } }
      await insertReplayAudit(client, { ...entry, action: 'replays.cancelled' })
      return { kind: 'cancelled', job: cancelled }
    }
    const job = await read(`SELECT ${jobColumns} FROM replays WHERE ${whose}`)
    return job ? { kind: 'ended', job } : { kind: 'not_found' }
  })
}

/** Why a request is none, for whoever typed it; undefined when it is one. Pure. */
function problemOf({ filter, ratePerSecond, by, idempotencyKey }: StartReplayRequest): string | undefined {
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
  connection: Queryable,
  { filter, idempotencyKey }: StartReplayRequest,
): Promise<ReplayJob | undefined> {
  const { rows } = await connection.query<JobRow>({
    text: `SELECT ${jobColumns} FROM replays WHERE tenant_id IS NOT DISTINCT FROM $1 AND idempotency_key = $2`,
    rowMode: 'array',
    values: [filter.tenantId ?? null, idempotencyKey],
  })
  return rows.map(jobOf)[0]
}

function sameOr(job: ReplayJob, { filter, ratePerSecond }: StartReplayRequest): StartReplayResult {
  const isSame = isDeepStrictEqual(job.filter, asStored(filter)) && job.ratePerSecond === ratePerSecond
  return isSame ? { kind: 'already_started', job } : { kind: 'conflict' }
}

/** Without what is undefined, as it comes back. */
function asStored(filter: ReplayFilter): unknown {
  return JSON.parse(JSON.stringify(filter))
}

// Few rows, by the index over those that have not ended. The caller holds the lock.
async function refusalOf(
  client: Queryable,
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
  client: Queryable,
  { filter, ratePerSecond, by, idempotencyKey }: StartReplayRequest,
  { count, nowMs }: { readonly count: ReplayCount; readonly nowMs: number },
): Promise<ReplayJob> {
  const id = createReplayId(nowMs)
  const tenantId = filter.tenantId ?? null
  const { rows } = await client.query<JobRow>({
    text: `INSERT INTO replays (id, idempotency_key, tenant_id, filter, rate_per_second, requested_by, state, total_count,
        total_is_exact, ends_before, created_at, next_step_at)
      VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, now(), now()) RETURNING ${jobColumns}`,
    rowMode: 'array',
    values: [
      ...[id, idempotencyKey, tenantId, JSON.stringify(filter), ratePerSecond, by],
      ...[count.count, count.isExact, lowestIdOf(Math.min(filter.toMs ?? nowMs, nowMs))],
    ],
  })
  const [job] = rows.map(jobOf)
  if (job === undefined) throw new Error('a replay was stored and not given back')
  const { ids, ...rest } = filter
  const detail = { replay: id, ratePerSecond, total: count, filter: { ...rest, ids: ids?.length } }
  await insertReplayAudit(client, { actor: by, action: 'replays.started', tenantId, detail })
  return job
}
