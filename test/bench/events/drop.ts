import type { Day } from '#internal/base/index.ts'
import { forgetDedupeKeys } from '#internal/events/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
// Tests may import any file of a module in `internal`, not only its `index.ts`.
import { dropExpiredPartitions, type ExpiredPartition } from '#internal/storage/postgres/partitions.ts'
import { median, quantileOf } from '../bounds.ts'
import { type Call, runOpenLoop } from '../open-loop.ts'
import type { Held } from '../webhooks/bounds.ts'
import { signedCall } from '../webhooks/calls.ts'
import type { Stack } from '../webhooks/stack.ts'

/** Days to drop, and the load during it. */
export interface DropOptions {
  /** Expired full days, oldest first. */
  readonly days: readonly Day[]
  /** Events per second. */
  readonly rate: number
}

/** Results of dropping. */
export interface DropFigures {
  /** Lines of a table. */
  readonly table: readonly string[]
  readonly held: readonly Held[]
}

interface Round {
  readonly day: Day
  readonly dayMs: number
  readonly longest: { readonly name: string; readonly ms: number }
  readonly keys: number
  readonly keysMs: number
  readonly longestBatchMs: number
  readonly without: Intake
  /** Load during the drop of partitions and during the removal of keys. */
  readonly beside: Intake
}

interface Intake {
  readonly p50: number
  readonly p99: number
  readonly worst: number
  readonly notOk: number
}

const hourMs = 3_600_000
const warmMs = 3_000
const roundMs = 12_000
const leadMs = 2_000
const connections = 64
const dropMsMax = 1_000
const blockedMsMax = 500
const batchesMax = 1_000

/** Drops days and their dedupe keys one after another during intake, each preceded by an equally long measurement without. */
export async function measureDrops(stack: Stack, { days, rate }: DropOptions): Promise<DropFigures> {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: stack.databaseUrl, applicationName: 'bench retention', ...bounds })
  let sent = 0
  const takeIn = async (durationMs: number): Promise<Intake> => {
    const from = sent
    sent += Math.ceil((durationMs / 1000) * rate) + 1
    const { port } = stack.api
    return figuresOf(
      await runOpenLoop({
        port,
        perSecond: rate,
        durationMs,
        connections,
        request: (n) => signedCall(from + n),
      }),
    )
  }
  try {
    await takeIn(warmMs)
    const rounds: Round[] = []
    for (const day of days) {
      const without = await takeIn(roundMs)
      const [beside, gone] = await Promise.all([
        takeIn(roundMs),
        Bun.sleep(leadMs).then(() => removeDay(pool, day)),
      ])
      rounds.push({ day, without, beside, ...gone })
    }
    return { table: tableOf(rounds), held: heldOf(rounds) }
  } finally {
    await pool.end()
  }
}

async function removeDay(
  pool: Pool,
  day: Day,
): Promise<Pick<Round, 'dayMs' | 'longest' | 'keys' | 'keysMs' | 'longestBatchMs'>> {
  const nowMs = Date.parse(day) + hourMs
  const taken: { name: string; ms: number }[] = []
  const onDropped = ({ table }: ExpiredPartition, ms: number) => void taken.push({ name: table, ms })
  const session = await pool.connect()
  const signal = new AbortController().signal
  const { blocked } = await dropExpiredPartitions({ session, nowMs, signal, onDropped }).finally(() =>
    session.release(true),
  )
  if (blocked.length > 0) throw new Error(`${blocked.length} partitions were locked`)
  return {
    dayMs: taken.reduce((sum, { ms }) => sum + ms, 0),
    longest: longestOf(taken),
    ...(await removeKeys(pool, nowMs)),
  }
}

/** Removes keys as retention does: each batch is followed by a pause of equal length. */
async function removeKeys(
  pool: Pool,
  nowMs: number,
): Promise<Pick<Round, 'keys' | 'keysMs' | 'longestBatchMs'>> {
  const startedAt = performance.now()
  let keys = 0
  let longestBatchMs = 0
  for (let batch = 0; batch < batchesMax; batch += 1) {
    const batchAt = performance.now()
    const { removed, hasMore } = await forgetDedupeKeys(pool, nowMs)
    const tookMs = performance.now() - batchAt
    keys += removed
    longestBatchMs = Math.max(longestBatchMs, tookMs)
    if (!hasMore) break
    await Bun.sleep(tookMs)
  }
  return { keys, keysMs: performance.now() - startedAt, longestBatchMs }
}

function longestOf(taken: readonly { name: string; ms: number }[]): { name: string; ms: number } {
  return taken.toSorted((one, other) => other.ms - one.ms)[0] ?? { name: 'none', ms: Number.NaN }
}

function figuresOf(calls: readonly Call[]): Intake {
  const times = calls.map(({ dueAt, answeredAt }) => (answeredAt ?? Number.POSITIVE_INFINITY) - dueAt)
  const sorted = times.toSorted((one, other) => one - other)
  const at = (share: number) => quantileOf(sorted, share)
  return { p50: at(0.5), p99: at(0.99), worst: at(1), notOk: calls.filter(({ ok }) => !ok).length }
}

function tableOf(rounds: readonly Round[]): string[] {
  const intake = ({ p50, p99, worst }: Intake) => [p50, p99, worst].map((ms) => ms.toFixed(1)).join(' / ')
  return [
    '| day | dropped in ms | longest | keys | removed in ms | longest batch ms | intake ms p50 / p99 / worst: before | beside |',
    '|---|---|---|---|---|---|---|---|',
    ...rounds.map(({ day, dayMs, longest, keys, keysMs, longestBatchMs, without, beside }) => {
      const dropped = [dayMs.toFixed(0), `${longest.name} ${longest.ms.toFixed(0)} ms`]
      const removed = [keys, keysMs.toFixed(0), longestBatchMs.toFixed(0)]
      return `| ${[day, ...dropped, ...removed, intake(without), intake(beside)].join(' | ')} |`
    }),
  ]
}

function heldOf(rounds: readonly Round[]): Held[] {
  const worst = (of: (round: Round) => number) => Math.max(...rounds.map(of))
  const p99 = (of: (round: Round) => Intake) => median(rounds.map((round) => of(round).p99))
  return [
    {
      name: 'drop of a day, maximum',
      value: worst(({ dayMs }) => dayMs),
      unit: ' ms',
      atMost: dropMsMax,
    },
    {
      name: 'intake during drops, slowest call',
      value: worst(({ beside }) => beside.worst),
      unit: ' ms',
      atMost: blockedMsMax,
    },
    {
      name: 'intake during drops, p99 relative to before',
      value: p99(({ beside }) => beside) / p99(({ without }) => without),
      atMost: 3,
    },
    {
      name: 'calls not answered 200',
      value: worst(({ beside, without }) => beside.notOk + without.notOk),
      atMost: 0,
    },
  ]
}
