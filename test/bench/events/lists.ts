import { readFileSync } from 'node:fs'
import type { TenantId } from '#internal/base/index.ts'
import {
  type EventListRequest,
  type EventSummary,
  eventReadSettings,
  listEvents,
  readEvent,
  readPayload,
} from '#internal/events/index.ts'
import { listRefusedCalls } from '#internal/intake/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import {
  acknowledgeEvents,
  parseSubscriptionName,
  pullEvents,
  pullEventsMax,
  writeSubscription,
} from '#internal/subscriptions/index.ts'
import { quantileOf } from '../bounds.ts'
import type { Held } from '../webhooks/bounds.ts'
import { type CaseParts, listCases, type Random, seededRandom } from './requests.ts'

/** Reads to measure. */
export interface ReadOptions extends Omit<CaseParts, 'known'> {
  readonly databaseUrl: string
  /** Ids of existing events. */
  readonly ids: readonly EventSummary['id'][]
  /** Number of calls of each kind. */
  readonly calls: number
}

/** Results of reading. */
export interface ReadFigures {
  /** Lines of a table. */
  readonly table: readonly string[]
  readonly held: readonly Held[]
}

interface Timed {
  readonly name: string
  /** Time of the session's first call, which plans the statement. */
  readonly firstMs: number
  /** Times of the other calls, sorted. */
  readonly sortedMs: readonly number[]
  /** Mean rows per call. */
  readonly rows: number
  /** Mean CPU time per call, of this process and Postgres; on a busy machine more reliable than the times. */
  readonly cpuMs: number
}

const applicationName = 'bench reads'
const pageRows = 50
const deepPages = 200
const listMsMax = 50
const eventMsMax = 10
const pullMsMax = 10

/** Measures lists by every filter, one event, a payload and refused calls, one call at a time. */
export async function measureReads(options: ReadOptions): Promise<ReadFigures> {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  const pool = createPool({
    url: options.databaseUrl,
    applicationName,
    ...bounds,
    sessionSettings: eventReadSettings,
  })
  try {
    const known = await readKnown(pool, options)
    const lists = await timeLists(pool, { ...options, known })
    const others = await timeOthers(pool, { ...options, known })
    return {
      table: [
        '| read | rows | p50 ms | p95 ms | p99 ms | first ms | CPU ms |',
        '|---|---|---|---|---|---|---|',
        ...[...lists, ...others.map(({ timed }) => timed)].map(rowOf),
      ],
      held: [
        ...lists.map((timed) => heldOf(`list: ${timed.name}`, timed, listMsMax)),
        ...others.map(({ timed, msMax }) => heldOf(timed.name, timed, msMax)),
      ],
    }
  } finally {
    await pool.end()
  }
}

async function readKnown(pool: Pool, { ids, nowMs }: ReadOptions): Promise<readonly EventSummary[]> {
  const random = seededRandom(1)
  const views = []
  for (let nth = 0; nth < 300; nth += 1) {
    const id = ids[Math.floor(random() * ids.length)]
    if (id !== undefined) views.push(await readEvent(pool, { id }, nowMs))
  }
  const known = views.flatMap((view) => (view ? [view.event] : []))
  if (known.length !== views.length) throw new Error('a loaded event was not found')
  return known
}

type Parts = ReadOptions & CaseParts

async function timeLists(pool: Pool, parts: Parts): Promise<Timed[]> {
  const timed: Timed[] = []
  const list = async (request: Omit<EventListRequest, 'limit'>) =>
    (await listEvents(pool, { ...request, limit: pageRows }, parts.nowMs)).events.length
  for (const { name, request } of listCases(parts))
    timed.push(await time(pool, { name, calls: parts.calls }, (random) => list(request(random))))
  timed.push(await timeWalk(pool, parts))
  return timed
}

/** Measures paging through one large tenant, as programs do. */
async function timeWalk(pool: Pool, { tenantIds, nowMs }: Parts): Promise<Timed> {
  const [tenantId] = tenantIds
  if (tenantId === undefined) throw new RangeError('no tenant')
  let after: EventListRequest['after']
  return await time(pool, { name: `${deepPages} pages in a row, tenant`, calls: deepPages }, async () => {
    const page = await listEvents(pool, { tenantId, limit: pageRows, ...(after && { after }) }, nowMs)
    after = page.next
    return page.events.length
  })
}

async function timeOthers(pool: Pool, parts: Parts): Promise<{ timed: Timed; msMax: number }[]> {
  const { known, nowMs, calls, tenantIds } = parts
  const one = (random: Random, of: readonly EventSummary[]) => {
    const found = of[Math.floor(random() * of.length)]
    if (found === undefined) throw new RangeError('no event')
    return { id: found.id }
  }
  const failed = (await listEvents(pool, { state: 'delivery_failed', limit: 100 }, nowMs)).events
  const event = (of: readonly EventSummary[]) => async (random: Random) =>
    (await readEvent(pool, one(random, of), nowMs))?.attempts.length ?? 0
  const payload = async (random: Random) =>
    (await readPayload(pool, one(random, known), nowMs)).kind === 'payload' ? 1 : 0
  const refused = async (random: Random) => {
    const tenantId: TenantId | undefined = tenantIds[Math.floor(random() * tenantIds.length)]
    if (tenantId === undefined) throw new RangeError('no tenant')
    return (await listRefusedCalls(pool, { tenantId, limit: pageRows }, nowMs)).calls.length
  }
  return [
    {
      timed: await time(pool, { name: 'one event with its attempts', calls }, event(known)),
      msMax: eventMsMax,
    },
    {
      timed: await time(pool, { name: 'one failed event with its attempts', calls }, event(failed)),
      msMax: eventMsMax,
    },
    { timed: await time(pool, { name: 'one payload', calls }, payload), msMax: eventMsMax },
    {
      timed: await time(pool, { name: 'list: refused calls of a tenant', calls }, refused),
      msMax: listMsMax,
    },
    { timed: await timePulls(pool, { tenantIds, nowMs, calls }), msMax: pullMsMax },
  ]
}

/** Measures pulls of the large tenant, each with the acknowledgement of the one before. */
async function timePulls(
  pool: Pool,
  { tenantIds: [tenantId], nowMs, calls }: Pick<ReadOptions, 'tenantIds' | 'nowMs' | 'calls'>,
): Promise<Timed> {
  const name = parseSubscriptionName('bench')
  if (tenantId === undefined || name === undefined) throw new RangeError('no tenant')
  await writeSubscription(pool, { tenantId, name, providers: [], types: [], fromMs: 0 })
  let ackToken: string | undefined
  return await time(
    pool,
    { name: `pull and acknowledgement of ${pullEventsMax} events`, calls },
    async () => {
      if (ackToken !== undefined) await acknowledgeEvents(pool, { tenantId, name, ackToken }, nowMs)
      const pulled = await pullEvents(pool, { tenantId, name, limit: pullEventsMax, leaseSeconds: 60 }, nowMs)
      if (pulled.kind !== 'pulled' || pulled.ackToken === undefined) throw new Error('nothing was pulled')
      ;({ ackToken } = pulled)
      return pulled.events.length
    },
  )
}

async function time(
  pool: Pool,
  { name, calls }: { readonly name: string; readonly calls: number },
  call: (random: Random) => Promise<number>,
): Promise<Timed> {
  const random = seededRandom(Bun.hash.crc32(name))
  const takenMs: number[] = []
  let rows = 0
  let cpuBeforeMs = 0
  for (let nth = 0; nth <= calls; nth += 1) {
    if (nth === 1) cpuBeforeMs = await readCpuMs(pool)
    const startedAt = performance.now()
    rows += await call(random)
    takenMs.push(performance.now() - startedAt)
  }
  const cpuMs = ((await readCpuMs(pool)) - cpuBeforeMs) / calls
  const [firstMs = Number.NaN, ...others] = takenMs
  return { name, firstMs, sortedMs: others.toSorted((a, b) => a - b), rows: rows / takenMs.length, cpuMs }
}

/** Returns the CPU time of this process and the pool's sessions; NaN without /proc. */
async function readCpuMs(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>(
    'SELECT pid FROM pg_stat_activity WHERE application_name = $1',
    [applicationName],
  )
  const { user, system } = process.cpuUsage()
  return rows.reduce((sum, { pid }) => sum + cpuMsOf(pid), (user + system) / 1000)
}

function cpuMsOf(pid: number): number {
  try {
    // Fields after the name in brackets; times are in 1/100 s: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html (read 2026-11).
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return Number.NaN
  }
}

function rowOf({ name, firstMs, sortedMs, rows, cpuMs }: Timed): string {
  const times = [
    quantileOf(sortedMs, 0.5),
    quantileOf(sortedMs, 0.95),
    quantileOf(sortedMs, 0.99),
    firstMs,
    cpuMs,
  ].map((ms) => ms.toFixed(1))
  return `| ${[name, rows.toFixed(1), ...times].join(' | ')} |`
}

function heldOf(name: string, { sortedMs }: Timed, msMax: number): Held {
  return { name: `${name}, p95`, value: quantileOf(sortedMs, 0.95), unit: ' ms', atMost: msMax }
}
