import { randomToken, systemClock, type TenantId } from '#internal/base/index.ts'
import { eventReadSettings, tellForwarders } from '#internal/events/index.ts'
import {
  cancelReplay,
  listReplays,
  previewReplay,
  type ReplayJob,
  readReplay,
  replayEvent,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'
import { type Command, type ExitCode, misused, type Terminal, wantsHelp } from './command.ts'
import { parseReplayRequest, type ReplayRequest } from './replay-request.ts'
import { eventText, jobJson, jobsText, jobText, previewJson, previewText } from './replay-text.ts'
import { type ToolStores, withStores } from './stores.ts'
import { whoRuns } from './who-runs.ts'

const name = 'latchkey replay'
const help = `usage: ${name} event ID         delivers one event once more
       ${name} start ...        delivers all events of a filter once more
       ${name} status ID        how far a replay is
       ${name} list             replays, the latest first
       ${name} cancel ID        ends a replay; what it has queued is delivered

start takes
  --tenant ID|SLUG      whose events; or --all-tenants
  --from TIME           received since then: 2026-11-01, 2026-11-01T08:30:00Z, or 24h, 7d ago
  --to TIME             and before; left out: until now
  --state STATE         delivery_failed (the default), processed, verified, any
  --provider NAME       --type TYPE
  --rate N              events a second, 1 to 1000; left out: 50
  --key TEXT            makes repeats of this command the same replay
  --dry-run             counts and shows the first, and starts nothing
list takes --tenant ID|SLUG, --limit N, --after ID.

  --by NAME             who does it, for the audit log; left out: the user and host of this command
  --json                JSON on standard output

It needs LATCHKEY_DATABASE_URL. Forwarders work on replays; receivers know an event by its webhook-id, which stays.
Exit codes: 0 done, 1 not done, 2 not understood.`

/** Delivers events once more: `latchkey replay event|start|status|list|cancel`. */
export const replayCommand: Command = {
  summary: 'delivers events once more',
  async run(args, terminal) {
    if (wantsHelp(args)) {
      terminal.say(help)
      return 0
    }
    const asked = parseReplayRequest(args, systemClock.now())
    if (asked.verb === 'misused') return misused(terminal, asked.text, name)
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
  if (result.kind === 'queued') await parts.tell((redis) => tellForwarders(redis, [result.tenantId]))
  if (request.json) parts.say(jsonText({ event: request.id, result }))
  else if (isDone) parts.say(eventText(result))
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

/** null: all of them; undefined: there is none of that name. */
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

function answer(
  { json }: { readonly json: boolean },
  { say }: Terminal,
  given: { text: string; json: object },
): 0 {
  say(json ? jsonText(given.json) : given.text)
  return 0
}

function fail({ json }: { readonly json: boolean }, { say, complain }: Terminal, problem: string): 1 {
  if (json) say(jsonText({ problem }))
  else complain(problem)
  return 1
}

function jsonText(value: unknown): string {
  return JSON.stringify(value, null, 2)
}
