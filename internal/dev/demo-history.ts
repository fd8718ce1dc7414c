import { listAudit, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { readStats, StatsRecorder, StatsTally } from '#internal/usage/index.ts'

export interface DemoHistory {
  readonly pool: Pool
  readonly tenantId: TenantId
  readonly nowMs: number
  readonly random: () => number
}

const auditAction = 'stats.made_up'
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Length of the generated stats per minute. Older stats are per hour, because only charts of up to two days read stats per minute. */
const minutesMs = 2 * dayMs
const hoursMs = 30 * dayMs
const eventsPerMinute = 4
/** Simulated minutes or hours per write. Below the number of minutes of which a `StatsTally` can hold the state of the delivery queue. */
const momentsPerWrite = 200
/** Causes of the refused calls among 100 simulated calls, one element per refused call. */
const causes = [
  'signature_mismatch',
  'signature_mismatch',
  'timestamp_outside_window',
  'provider_not_enabled',
]

/**
 * Writes 30 days of generated stats for a tenant that has no stats older than about an hour, with a daily rhythm and two outages of the
 * callback. Returns false, without a write, for a tenant with older stats. Writes no events, so charts have data but event lists stay
 * empty. First writes the audit entry that `readMadeUpUntil` reads.
 */
export async function writeDemoHistory(history: DemoHistory): Promise<boolean> {
  const { pool, tenantId, nowMs } = history
  const untilMs = floorTo(nowMs, hourMs) - hourMs
  const known = await readStats(pool, {
    tenants: [tenantId],
    fromMs: untilMs - hoursMs,
    toMs: untilMs,
    stepMs: 4 * hourMs,
  })
  if (known.total.accepted + known.total.refused > 0) return false
  const made = { actor: 'dev', action: auditAction, tenantId, detail: { untilMs: nowMs } } as const
  await writeAudit(pool, made, nowMs)
  const clock = { nowMs: untilMs, now: () => clock.nowMs }
  const tally = new StatsTally(clock)
  const recorder = new StatsRecorder({ pool, tally, clock, onRefused: () => undefined })
  const minutesFromMs = floorTo(nowMs - minutesMs, hourMs)
  let moments = 0
  for (let atMs = floorTo(nowMs - hoursMs, hourMs); atMs < nowMs - minuteMs; ) {
    const lengthMs = atMs < minutesFromMs ? hourMs : minuteMs
    clock.nowMs = atMs
    countMoment(tally, history, { atMs, lengthMs })
    moments += 1
    if (moments % momentsPerWrite === 0) await recorder.flushAll()
    atMs += lengthMs
  }
  await recorder.flushAll()
  return true
}

function floorTo(ms: number, stepMs: number): number {
  return ms - (ms % stepMs)
}

/**
 * Returns the time before which a tenant's stats are generated, or undefined if all are real.
 * @throws errors of Postgres
 */
export async function readMadeUpUntil(pool: Pool, tenantId: TenantId): Promise<number | undefined> {
  const { entries } = await listAudit(pool, { tenantId, action: auditAction, limit: 1 })
  const untilMs = entries[0]?.detail['untilMs']
  return typeof untilMs === 'number' ? untilMs : undefined
}

/** Counts the simulated calls of a minute or hour that begins at `atMs`. */
function countMoment(
  tally: StatsTally,
  { tenantId, nowMs, random }: DemoHistory,
  { atMs, lengthMs }: { readonly atMs: number; readonly lengthMs: number },
): void {
  const calls = Math.round(eventsPerMinute * (lengthMs / minuteMs) * loadAt(atMs) * (0.6 + 0.8 * random()))
  const isDown = isOutage(nowMs - atMs)
  for (let call = 0; call < calls; call += 1) {
    const cause = causes[Math.floor(random() * 100)]
    if (cause !== undefined) tally.countRefused(tenantId, cause)
    else if (random() < 0.03) tally.count(tenantId, 'duplicates')
    else countEvent(tally, tenantId, isDown && random() < 0.8, random)
  }
  const dueCount = isDown ? calls * 20 : Math.floor(random() * 3)
  tally.noteQueue({ dueCount, oldestAgeMs: (isDown ? 180_000 : 900) * random() })
}

function countEvent(tally: StatsTally, tenantId: TenantId, isDown: boolean, random: () => number): void {
  tally.count(tenantId, 'accepted')
  const needsRetry = isDown || random() < 0.04
  if (needsRetry) tally.count(tenantId, 'attemptsFailed')
  if (isDown && random() < 0.3) {
    tally.count(tenantId, 'failed')
    return
  }
  // Most latencies are tens of milliseconds, and some are several hundred. After a failure the latency is seconds.
  const firstMs = 12 + 30 * random() ** 3 + (random() < 0.05 ? 400 * random() : 0)
  tally.countDelivered(tenantId, needsRetry ? 1_000 + 9_000 * random() : firstMs)
}

/** Returns the load as a share of the peak: low at night (UTC), highest in the evening, lower on Sundays. */
function loadAt(atMs: number): number {
  const hour = (atMs % dayMs) / hourMs
  const ofDay = 0.35 + 0.65 * Math.max(0, Math.sin(((hour - 5) / 19) * Math.PI))
  return new Date(atMs).getUTCDay() === 0 ? ofDay * 0.6 : ofDay
}

/** Two simulated outages: 40 minutes about 20 hours ago, and two hours 12 days ago. */
function isOutage(agoMs: number): boolean {
  const hours = agoMs / hourMs
  return (hours > 19.6 && hours < 20.3) || (hours > 288 && hours < 290)
}
