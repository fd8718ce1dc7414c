import { randomToken, systemClock } from '#internal/base/index.ts'
import { type EventSummary, eventReadSettings, notifyForwarders } from '#internal/events/index.ts'
import {
  cancelReplay,
  listReplays,
  previewReplay,
  type ReplayCount,
  type ReplayJob,
  readReplay,
  replayEvent,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import {
  answer,
  type Command,
  columnsText,
  noTenant,
  type Result,
  type ToolStores,
  tenantOf,
  whoRuns,
  withStores,
} from './command.ts'
import { parseReplayRequest, type ReplayRequest } from './replay-request.ts'

const command = 'latchkey replay'
const help = `usage: ${command} event ID         delivers one event again
       ${command} start ...        delivers all events of a filter again
       ${command} status ID        shows a replay's progress
       ${command} list             lists replays, the latest first
       ${command} cancel ID        ends a replay; events that it has queued are delivered

start takes
  --tenant ID|SLUG      the events' tenant; or --all-tenants
  --from TIME           received since then: 2026-11-01, 2026-11-01T08:30:00Z, or 24h, 7d ago
  --to TIME             and before; default: now
  --state STATE         delivery_failed (the default), processed, verified, any
  --provider NAME       --type TYPE
  --origin ORIGIN       provider, service, simulation; default: all three, and never test events
  --rate N              events per second, 1 to 1000; default: 50
  --key TEXT            repeated commands with this key return the same replay
  --dry-run             counts the events, shows the first ones, and starts nothing
list takes --tenant ID|SLUG, --limit N, --after ID.

  --by NAME             actor for the audit log; default: the user and host of this command
  --json                JSON on standard output

The command needs LATCHKEY_DATABASE_URL. Forwarders run the replays; the webhook-id of an event stays the same.
Exit codes: 0 success, 1 failure, 2 wrong arguments.`

/** The command `latchkey replay event|start|status|list|cancel`: delivers events again. */
export const replayCommand: Command = {
  summary: 'delivers events again',
  help,
  async run(args, terminal) {
    const asked = parseReplayRequest(args, systemClock.now())
    if (asked.kind === 'misused') return asked
    return withStores(
      terminal,
      async (stores) => answer(await run(asked, stores), asked.json, terminal),
      eventReadSettings,
    )
  },
}

type Start = Extract<ReplayRequest, { readonly verb: 'start' }>
type List = Extract<ReplayRequest, { readonly verb: 'list' }>
type One = Extract<ReplayRequest, { readonly verb: 'event' }>

async function run(request: ReplayRequest, stores: ToolStores): Promise<Result> {
  switch (request.verb) {
    case 'event':
      return replayOne(request, stores)
    case 'start':
      return start(request, stores)
    case 'list':
      return list(request, stores)
    case 'status': {
      const job = await readReplay(stores.pool, request)
      return job === undefined ? noReplay : jobResult(job)
    }
    case 'cancel': {
      const result = await cancelReplay(stores.pool, { id: request.id, by: request.by ?? whoRuns() })
      if (result.kind === 'not_found') return noReplay
      if (result.kind === 'ended') return { problem: `The replay had already ended: ${result.job.state}` }
      return jobResult(result.job)
    }
  }
}

const noReplay = { problem: 'No replay has that id' } as const

const refusals = {
  payload_expired: 'its payload has expired, so there is nothing to deliver',
  not_enabled:
    'the provider is in verify-only mode: first set spec.walletRollout.stage of the tenant to enabled',
  cycles_exhausted: 'it has reached the maximum number of delivery cycles',
  test_event: 'a test event is sent once; send another one instead',
  changed: 'it is now in another delivery cycle',
  not_found: 'there is no such event, or its retention has ended',
} as const

async function replayOne({ id, by = whoRuns() }: One, { pool, notify }: ToolStores): Promise<Result> {
  const result = await replayEvent(pool, { eventId: id, by }, systemClock.now())
  const json = { eventId: id, result }
  switch (result.kind) {
    case 'queued':
      await notify((redis) => notifyForwarders(redis, [result.tenantId]))
      return { text: `queued: delivery cycle ${result.cycle} begins now`, json }
    case 'already_queued':
      return { text: `delivery cycle ${result.cycle} is already running: nothing to do`, json }
    default:
      return { problem: `The event was not replayed: ${refusals[result.kind]}`, json }
  }
}

async function start(request: Start, { pool }: ToolStores): Promise<Result> {
  const tenantId = await tenantOf(pool, request.tenant)
  if (tenantId === undefined) return noTenant
  const filter = { ...request.filter, ...(tenantId !== null && { tenantId }) }
  const nowMs = systemClock.now()
  if (request.isDryRun) {
    const { total, examples, newest } = await previewReplay(pool, filter, nowMs)
    const last = newest && !examples.some(({ id }) => id === newest.id) ? ['…', exampleText(newest)] : []
    const title = `${countText(total)} events would be examined; nothing was queued`
    const json = {
      total,
      examples: examples.map(exampleJson),
      newest: newest ? exampleJson(newest) : null,
    }
    return { text: [title, ...examples.map(exampleText), ...last].join('\n'), json }
  }
  const { ratePerSecond, by = whoRuns(), key: idempotencyKey = randomToken() } = request
  const result = await startReplay(pool, { filter, ratePerSecond, by, idempotencyKey }, nowMs)
  return 'job' in result ? jobResult(result.job) : refusalOf(result)
}

async function list({ tenant, limit, after }: List, { pool }: ToolStores): Promise<Result> {
  const tenantId = await tenantOf(pool, tenant)
  if (tenantId === undefined) return noTenant
  const { replays, next = null } = await listReplays(pool, {
    ...{ limit, ...(tenantId !== null && { tenantId }), ...(after !== undefined && { after }) },
  })
  const rows = replays.map((job) => [
    ...[job.id, job.state, `${job.queuedCount} of ${countText(job.total)}`, isoTime(job.createdAtMs)],
    ...[job.filter.tenantId ?? 'all tenants', job.requestedBy],
  ])
  const text = rows.length === 0 ? 'no replays' : columnsText(rows)
  return { text: next === null ? text : `${text}\nmore: --after ${next}`, json: { items: replays, next } }
}

function refusalOf(result: Exclude<StartReplayResult, { readonly job: ReplayJob }>): Result {
  switch (result.kind) {
    case 'conflict':
      return { problem: 'The key was used for another replay: use a new key, or the same filter and rate' }
    case 'unknown_tenant':
      return noTenant
    case 'too_many':
      return { problem: `${result.max} replays are running: wait until one of them ends, or cancel one` }
    case 'invalid':
      return { problem: `The replay was not started: ${result.problem}` }
  }
}

function jobResult(job: ReplayJob): Result {
  const { filter, skipped } = job
  const parts = [
    filter.state ?? 'any state',
    filter.provider,
    filter.type,
    filter.ids && `${filter.ids.length} ids`,
  ]
  const until = filter.toMs === undefined ? 'its start' : isoTime(filter.toMs)
  const causes = Object.entries(skipped).map(([cause, count]) => `${count} ${cause}`)
  const rows = [
    ['replay', job.id],
    ['state', `${job.state}${job.isWaiting ? ', waiting for the tenant’s retries to be made' : ''}`],
    ['tenant', filter.tenantId ?? 'all'],
    ['events', `${parts.filter(Boolean).join(', ')} from ${isoTime(filter.fromMs)} to ${until}`],
    ['rate', `${job.ratePerSecond} a second`],
    ['asked by', `${job.requestedBy}, ${isoTime(job.createdAtMs)}`],
    ['total', countText(job.total)],
    ['queued', String(job.queuedCount)],
    ...(causes.length > 0 ? [['skipped', causes.join(', ')]] : []),
    ...(job.cause === null ? [] : [['cause', job.cause]]),
    ...(job.endedAtMs === null ? [] : [['ended', isoTime(job.endedAtMs)]]),
  ]
  return { text: columnsText(rows), json: job }
}

function exampleText({ id, tenantId, provider, type, state, receivedAtMs }: EventSummary): string {
  return `  ${id}  ${isoTime(receivedAtMs)}  ${tenantId}  ${provider}  ${type}  ${state}`
}

function exampleJson({ id, tenantId, provider, type, state, receivedAtMs }: EventSummary): object {
  return { id, tenantId, provider, type, state, receivedAtMs }
}

function countText({ count, isExact }: ReplayCount): string {
  return isExact ? String(count) : `more than ${count}`
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
