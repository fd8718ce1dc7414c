import { randomToken, systemClock, type TenantId } from '#internal/base/index.ts'
import { type EventSummary, eventReadSettings, tellForwarders } from '#internal/events/index.ts'
import {
  cancelReplay,
  listReplays,
  previewReplay,
  type ReplayCount,
  type ReplayEventResult,
  type ReplayJob,
  type ReplayPreview,
  readReplay,
  replayEvent,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'
import {
  answer,
  type Command,
  type ExitCode,
  fail,
  misused,
  type Terminal,
  type ToolStores,
  wantsHelp,
  whoRuns,
  withStores,
} from './command.ts'
import { parseReplayRequest, type ReplayRequest } from './replay-request.ts'

const command = 'latchkey replay'
const help = `usage: ${command} event ID         delivers one event once more
       ${command} start ...        delivers all events of a filter once more
       ${command} status ID        shows a replay's progress
       ${command} list             lists replays, the latest first
       ${command} cancel ID        ends a replay; events that it has queued are delivered

start takes
  --tenant ID|SLUG      the events' tenant; or --all-tenants
  --from TIME           received since then: 2026-11-01, 2026-11-01T08:30:00Z, or 24h, 7d ago
  --to TIME             and before; default: now
  --state STATE         delivery_failed (the default), processed, verified, any
  --provider NAME       --type TYPE
  --rate N              events per second, 1 to 1000; default: 50
  --key TEXT            makes repeats of this command the same replay
  --dry-run             counts and shows the first, and starts nothing
list takes --tenant ID|SLUG, --limit N, --after ID.

  --by NAME             actor for the audit log; default: the user and host of this command
  --json                JSON on standard output

It needs LATCHKEY_DATABASE_URL. Forwarders carry replays out; the webhook-id of an event stays the same.
Exit codes: 0 done, 1 failed, 2 misused.`

/** Delivers events once more: `latchkey replay event|start|status|list|cancel`. */
export const replayCommand: Command = {
  summary: 'delivers events once more',
  async run(args, terminal) {
    if (wantsHelp(args)) {
      terminal.say(help)
      return 0
    }
    const asked = parseReplayRequest(args, systemClock.now())
    if (asked.verb === 'misused') return misused(terminal, asked.text, command)
    return withStores(terminal, (stores) => run(asked, { ...stores, ...terminal }), eventReadSettings)
  },
}

type Parts = ToolStores & Terminal
type Start = Extract<ReplayRequest, { readonly verb: 'start' }>

async function run(request: ReplayRequest, parts: Parts): Promise<ExitCode> {
  switch (request.verb) {
    case 'event':
      return replayOne(request, parts)
    case 'start':
      return start(request, parts)
    case 'list':
      return list(request, parts)
    case 'status': {
      const job = await readReplay(parts.pool, request)
      if (job === undefined) return fail(request, parts, 'There is no replay of that id')
      return answer(request, parts, { text: jobText(job), json: jobJson(job) })
    }
    case 'cancel': {
      const result = await cancelReplay(parts.pool, { id: request.id, by: request.by ?? whoRuns() })
      if (result.kind === 'not_found') return fail(request, parts, 'There is no replay of that id')
      if (result.kind === 'ended') return fail(request, parts, `It had ended before: ${result.job.state}`)
      return answer(request, parts, { text: jobText(result.job), json: jobJson(result.job) })
    }
  }
}

async function replayOne(
  request: Extract<ReplayRequest, { readonly verb: 'event' }>,
  parts: Parts,
): Promise<ExitCode> {
  const by = request.by ?? whoRuns()
  const result = await replayEvent(parts.pool, { eventId: request.id, by }, systemClock.now())
  const isDone = result.kind === 'queued' || result.kind === 'already_queued'
  if (result.kind === 'queued') await parts.notify((redis) => tellForwarders(redis, [result.tenantId]))
  const json = { event: request.id, result }
  if (isDone || request.json) answer(request, parts, { text: eventText(result), json })
  else parts.complain(eventText(result))
  return isDone ? 0 : 1
}

async function start(request: Start, parts: Parts): Promise<ExitCode> {
  const { tenant, ratePerSecond, key } = request
  const tenantId = await tenantOf(tenant, parts)
  if (tenantId === undefined) return fail(request, parts, noTenant)
  const filter = { ...request.filter, ...(tenantId !== null && { tenantId }) }
  const nowMs = systemClock.now()
  if (request.isDryRun) {
    const preview = await previewReplay(parts.pool, filter, nowMs)
    return answer(request, parts, { text: previewText(preview), json: previewJson(preview) })
  }
  const by = request.by ?? whoRuns()
  const started = { filter, ratePerSecond, by, idempotencyKey: key ?? randomToken() }
  const result = await startReplay(parts.pool, started, nowMs)
  if (!('job' in result)) return fail(request, parts, refusalText(result))
  return answer(request, parts, { text: jobText(result.job), json: jobJson(result.job) })
}

async function list(
  { tenant, limit, after, json }: Extract<ReplayRequest, { readonly verb: 'list' }>,
  parts: Parts,
): Promise<ExitCode> {
  const tenantId = await tenantOf(tenant, parts)
  if (tenantId === undefined) return fail({ json }, parts, noTenant)
  const page = await listReplays(parts.pool, {
    ...{ limit, ...(tenantId !== null && { tenantId }), ...(after !== undefined && { after }) },
  })
  const more = page.next === undefined ? '' : `\nmore: --after ${page.next}`
  const replays = page.replays.map(jobJson)
  return answer({ json }, parts, {
    text: `${jobsText(page.replays)}${more}`,
    json: { replays, next: page.next ?? null },
  })
}

const noTenant = 'There is no tenant of that id or slug'

/** Returns null for all tenants, undefined for an unknown one. */
async function tenantOf(tenant: string | undefined, { pool }: Parts): Promise<TenantId | null | undefined> {
  return tenant === undefined ? null : await findLiveTenantId(pool, tenant)
}

function refusalText(result: Exclude<StartReplayResult, { readonly job: ReplayJob }>): string {
  switch (result.kind) {
    case 'conflict':
      return 'The key was used for another replay: take another one, or the same filter and rate'
    case 'unknown_tenant':
      return noTenant
    case 'too_many':
      return `${result.max} replays are under way: wait for one to end, or cancel it`
    case 'invalid':
      return `Not a replay: ${result.problem}`
  }
}

const refusals = {
  payload_expired: 'its payload is gone: nothing is left to send',
  not_enabled: 'it was only verified: set spec.walletRollout.stage of its tenant to enabled first',
  rounds_exhausted: 'it had as many rounds as can be counted',
  changed: 'it is in another delivery cycle by now',
  not_found: 'there is no such event, or its time is over',
} as const

function eventText(result: ReplayEventResult): string {
  if (result.kind === 'queued') return `queued: delivery cycle ${result.cycle} begins now`
  if (result.kind === 'already_queued') return `delivery cycle ${result.cycle} is under way: nothing to do`
  return `not replayed: ${refusals[result.kind]}`
}

function jobText(job: ReplayJob): string {
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

function jobsText(jobs: readonly ReplayJob[]): string {
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

function previewText({ count, examples, newest }: ReplayPreview): string {
  const lines = examples.map(exampleText)
  const last = newest && !examples.some(({ id }) => id === newest.id) ? ['…', exampleText(newest)] : []
  return [`${countText(count)} events would be looked at; nothing was queued`, ...lines, ...last].join('\n')
}

/** Returns a replay with its times as text. */
function jobJson({ createdAtMs, startedAtMs, endedAtMs, filter, ...job }: ReplayJob): object {
  const { fromMs, toMs, ...rest } = filter
  return {
    ...job,
    filter: { ...rest, from: isoTime(fromMs), ...(toMs !== undefined && { to: isoTime(toMs) }) },
    createdAt: isoTime(createdAtMs),
    startedAt: startedAtMs === null ? null : isoTime(startedAtMs),
    endedAt: endedAtMs === null ? null : isoTime(endedAtMs),
  }
}

function previewJson({ count, examples, newest }: ReplayPreview): object {
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
