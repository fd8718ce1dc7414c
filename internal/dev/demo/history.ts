import { listAudit, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { FigureRecorder, FigureTally, readFigures } from '#internal/usage/index.ts'

/** Whose history is made up, and up to when. */
export interface DemoHistory {
  readonly pool: Pool
  readonly tenantId: TenantId
  readonly nowMs: number
  readonly random: () => number
}

const auditAction = 'figures.made_up'
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** As long as minutes are kept, of which charts of two days are made; before that a minute stands for its hour. */
const minutesMs = 2 * dayMs
const hoursMs = 30 * dayMs
const eventsPerMinute = 4
/** Minutes of the queue that a tally holds are few: what is made up is written so often. */
const momentsPerWrite = 200
/** Of each hundred calls. */
const causes = [
  ['signature_mismatch', 2],
  ['timestamp_outside_window', 1],
  ['provider_not_enabled', 1],
] as const

/**
 * Writes 30 days of made-up figures for a tenant that has none older than an hour: days and nights, a bad hour now and then, and an
 * outage of its callback yesterday. False when it has a history. What it makes up are figures, no events: charts have a shape, lists do not.
 * A line of the audit log says so first, which `readMadeUpUntil` finds.
 */
export async function writeDemoHistory(history: DemoHistory): Promise<boolean> {
  const { pool, tenantId, nowMs } = history
  const untilMs = nowMs - (nowMs % hourMs) - hourMs
  const known = await readFigures(pool, {
    ...{ tenants: [tenantId], fromMs: untilMs - hoursMs, toMs: untilMs, stepMs: 4 * hourMs },
  })
  if (known.total.accepted + known.total.refused > 0) return false
  const made = { actor: 'dev', action: auditAction, tenantId, detail: { untilMs: nowMs } }
  await writeAudit(pool, made, nowMs)
  const clock = { nowMs: untilMs, now: () => clock.nowMs }
  const tally = new FigureTally(clock)
  const recorder = new FigureRecorder({ pool, tally, clock, onRefused: () => undefined })
  let moments = 0
  for (const { atMs, lengthMs } of momentsBetween(nowMs - hoursMs, nowMs - minutesMs, nowMs)) {
    clock.nowMs = atMs
    countMoment(tally, history, { atMs, lengthMs })
    moments += 1
    if (moments % momentsPerWrite === 0) await recorder.flushAll()
  }
  await recorder.flushAll()
  return true
}

/** The moment before which a tenant's figures are made up; undefined where they are not. @throws whatever Postgres throws */
export async function readMadeUpUntil(pool: Pool, tenantId: TenantId): Promise<number | undefined> {
  const { entries } = await listAudit(pool, { tenantId, action: auditAction, limit: 1 })
  const untilMs = entries[0]?.detail['untilMs']
  return typeof untilMs === 'number' ? untilMs : undefined
}

interface Moment {
  readonly atMs: number
  /** What it stands for. */
  readonly lengthMs: number
}

/** An hour each up to the minutes, and from there a minute each. */
function* momentsBetween(fromMs: number, minutesFromMs: number, toMs: number): Generator<Moment> {
  const fromHourMs = fromMs - (fromMs % hourMs)
  const turnMs = minutesFromMs - (minutesFromMs % hourMs)
  for (let atMs = fromHourMs; atMs < turnMs; atMs += hourMs) yield { atMs, lengthMs: hourMs }
  for (let atMs = turnMs; atMs < toMs - minuteMs; atMs += minuteMs) yield { atMs, lengthMs: minuteMs }
}

function countMoment(tally: FigureTally, { tenantId, nowMs, random }: DemoHistory, moment: Moment): void {
  const mean = eventsPerMinute * (moment.lengthMs / minuteMs) * busyness(moment.atMs)
  const calls = Math.round(mean * (0.6 + 0.8 * random()))
  const isDown = isOutage(nowMs - moment.atMs)
  for (let call = 0; call < calls; call += 1) {
    const cause = causeOf(random() * 100)
    if (cause !== undefined) tally.countRefused(tenantId, cause)
    else if (random() < 0.03) tally.count(tenantId, 'duplicates')
    else countEvent(tally, tenantId, isDown && random() < 0.8, random)
  }
  const waiting = isDown ? calls * 20 : Math.floor(random() * 3)
  tally.noteQueue({ dueCount: waiting, oldestAgeMs: isDown ? 180_000 * random() : 900 * random() })
}

function countEvent(tally: FigureTally, tenantId: TenantId, isDown: boolean, random: () => number): void {
  tally.count(tenantId, 'accepted')
  const needsRetry = isDown || random() < 0.04
  if (needsRetry) tally.count(tenantId, 'attemptsFailed')
  if (isDown && random() < 0.3) {
    tally.count(tenantId, 'failed')
    return
  }
  // Most within some ten milliseconds, some several times that, and after a failure seconds.
  const quickMs = 12 + 30 * random() ** 3 + (random() < 0.05 ? 400 * random() : 0)
  tally.countDelivered(tenantId, needsRetry ? 1_000 + 9_000 * random() : quickMs)
}

/** Little at night (UTC), most in the evening, less on Sundays. */
function busyness(atMs: number): number {
  const hour = (atMs % dayMs) / hourMs
  const ofDay = 0.35 + 0.65 * Math.max(0, Math.sin(((hour - 5) / 19) * Math.PI))
  return new Date(atMs).getUTCDay() === 0 ? ofDay * 0.6 : ofDay
}

/** Forty minutes, some twenty hours ago, and two hours twelve days ago. */
function isOutage(agoMs: number): boolean {
  const hours = agoMs / hourMs
  return (hours > 19.6 && hours < 20.3) || (hours > 288 && hours < 290)
}

function causeOf(drawn: number): string | undefined {
  let below = 0
  for (const [cause, share] of causes) {
    below += share
    if (drawn < below) return cause
  }
  return undefined
}
