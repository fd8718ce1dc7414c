import type { EventSummary } from '#internal/events/index.ts'
import type { ReplayCount, ReplayEventResult, ReplayJob, ReplayPreview } from '#internal/replays/index.ts'

const refusals = {
  payload_expired: 'its payload is gone: nothing is left to send',
  not_enabled: 'it was only verified: set spec.walletRollout.stage of its tenant to enabled first',
  rounds_exhausted: 'it had as many rounds as can be counted',
  changed: 'it is in another delivery cycle by now',
  not_found: 'there is no such event, or its time is over',
} as const

/** What came of the replay of one event, for people. */
export function eventText(result: ReplayEventResult): string {
  if (result.kind === 'queued') return `queued: delivery cycle ${result.cycle} begins now`
  if (result.kind === 'already_queued') return `delivery cycle ${result.cycle} is under way: nothing to do`
  return `not replayed: ${refusals[result.kind]}`
}

/** A replay for people. Ends without a line feed. */
export function jobText(job: ReplayJob): string {
  const skipped = Object.entries(job.skipped).map(([cause, count]) => `${count} ${cause}`)
  const lines = [
    ['replay', job.id],
    ['state', `${job.state}${job.isWaiting ? ', waiting for the tenant’s retries to be made' : ''}`],
    ['tenant', job.filter.tenantId ?? 'all'],
    ['events', filterText(job)],
    ['rate', `${job.ratePerSecond} a second`],
    ['asked by', `${job.requestedBy}, ${isoTime(job.createdAtMs)}`],
    ['total', countText(job.total)],
    ['queued', String(job.queuedCount)],
    ...(skipped.length > 0 ? [['skipped', skipped.join(', ')]] : []),
    ...(job.failedCause === null ? [] : [['trouble', job.failedCause]]),
    ...(job.endedAtMs === null ? [] : [['ended', isoTime(job.endedAtMs)]]),
  ]
  return lines.map(([label = '', value = '']) => `${label.padEnd(9)} ${value}`).join('\n')
}

/** Several replays for people, a line each. */
export function jobsText(jobs: readonly ReplayJob[]): string {
  if (jobs.length === 0) return 'no replays'
  return jobs
    .map((job) =>
      [
        ...[job.id, job.state.padEnd(9), `${job.queuedCount} of ${countText(job.total)}`.padEnd(24)],
        ...[isoTime(job.createdAtMs), job.filter.tenantId ?? 'all tenants', job.requestedBy],
      ].join('  '),
    )
    .join('\n')
}

/** What a replay would take up, for people. */
export function previewText({ count, examples, newest }: ReplayPreview): string {
  const lines = examples.map(exampleText)
  const last = newest && !examples.some(({ id }) => id === newest.id) ? ['…', exampleText(newest)] : []
  return [`${countText(count)} events would be looked at; nothing was queued`, ...lines, ...last].join('\n')
}

/** A replay for programs: times as text. */
export function jobJson({ createdAtMs, startedAtMs, endedAtMs, filter, ...job }: ReplayJob): object {
  const { fromMs, toMs, ...rest } = filter
  return {
    ...job,
    filter: { ...rest, from: isoTime(fromMs), ...(toMs !== undefined && { to: isoTime(toMs) }) },
    createdAt: isoTime(createdAtMs),
    startedAt: startedAtMs === null ? null : isoTime(startedAtMs),
    endedAt: endedAtMs === null ? null : isoTime(endedAtMs),
  }
}

/** What a replay would take up, for programs. */
export function previewJson({ count, examples, newest }: ReplayPreview): object {
  return { total: count, examples: examples.map(exampleJson), newest: newest ? exampleJson(newest) : null }
}

function exampleText({ id, tenantId, provider, type, state, receivedAtMs }: EventSummary): string {
  return `  ${id}  ${isoTime(receivedAtMs)}  ${tenantId}  ${provider}  ${type}  ${state}`
}

function exampleJson({ id, tenantId, provider, type, state, receivedAtMs }: EventSummary): object {
  return { id, tenantId, provider, type, state, receivedAt: isoTime(receivedAtMs) }
}

function filterText({ filter }: ReplayJob): string {
  const { state = 'any state', provider, type, fromMs, toMs, ids } = filter
  const parts = [state, provider, type, ids && `${ids.length} ids`].filter((part) => part !== undefined)
  return `${parts.join(', ')} from ${isoTime(fromMs)} to ${toMs === undefined ? 'its start' : isoTime(toMs)}`
}

function countText({ count, isExact }: ReplayCount): string {
  return isExact ? String(count) : `more than ${count}`
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
