import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { type EventId, parseEventId, randomToken } from '#internal/base/index.ts'
import { type EventSummary, eventReadSettings, notifyForwarders } from '#internal/events/index.ts'
import {
  cancelReplay,
  listReplays,
  parseReplayId,
  previewReplay,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  readReplay,
  replayEvent,
  replayedOrigins,
  replayRateMax,
  type StartReplayResult,
  startReplay,
} from '#internal/replays/index.ts'
import { acceptedProviderNames, neutralProviderName, type ProviderName } from '#internal/tenants/index.ts'
import { type Cli, type JsonOption, jsonOption, type Program, type Result } from './cli.ts'
import { noTenant, type ToolStores, tenantOf, whoRuns, withStores } from './stores.ts'
import { columnsText } from './tables.ts'
import { byOption, fromOption, parseId, parseTime, parseWhole } from './values.ts'

const states = ['delivery_failed', 'processed', 'verified', 'any'] as const
const listMax = 100

/** Adds `latchkey replay event|start|status|list|cancel`, which deliver events again. */
export function addReplayCommand(program: Program, cli: Cli): void {
  const replay = program
    .command('replay')
    .description('delivers events again')
    .addHelpText(
      'after',
      '\nNeeds LATCHKEY_DATABASE_URL. Forwarders run the replays; the webhook-id of an event stays the same.',
    )
  const answer = (options: JsonOption, use: (stores: ToolStores) => Promise<Result>) =>
    withStores(cli, async (stores) => cli.answer(await use(stores), options), eventReadSettings)
  const parseReplay = parseId('rpl', parseReplayId)
  replay
    .command('event')
    .description('delivers one event again')
    .argument('<id>', 'id of the event', parseId('evt', parseEventId))
    .option(...byOption)
    .option(...jsonOption)
    .action(
      cli.action((id, options) =>
        answer(options, (stores) => replayOne({ id, ...options, nowMs: cli.clock.now() }, stores)),
      ),
    )
  addStartCommand(replay, cli, answer)
  replay
    .command('status')
    .description("shows a replay's progress")
    .argument('<id>', 'id of the replay', parseReplay)
    .option(...jsonOption)
    .action(
      cli.action((id, options) =>
        answer(options, async ({ pool }) => {
          const job = await readReplay(pool, { id })
          return job === undefined ? noReplay : jobResult(job)
        }),
      ),
    )
  replay
    .command('list')
    .description('lists replays, the latest first')
    .option('--tenant <id|slug>', 'those of one tenant')
    .option('--limit <n>', `at most so many, 1 to ${listMax}`, parseWhole(1, listMax), 20)
    .option('--after <id>', 'those after this one in the list', parseReplay)
    .option(...jsonOption)
    .action(cli.action((options) => answer(options, (stores) => list(options, stores))))
  replay
    .command('cancel')
    .description('ends a replay; events that it has queued are delivered')
    .argument('<id>', 'id of the replay', parseReplay)
    .option(...byOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => answer(options, (stores) => cancel({ id, ...options }, stores))))
}

function addStartCommand(
  replay: Program,
  cli: Cli,
  answer: (
    options: JsonOption,
    use: (stores: ToolStores) => Promise<Result>,
  ) => ReturnType<typeof withStores>,
): void {
  const nowMs = cli.clock.now()
  replay
    .command('start')
    .description('delivers all events of a filter again')
    .addOption(new Option('--tenant <id|slug>', 'the events’ tenant').conflicts('allTenants'))
    .option('--all-tenants', 'events of all tenants')
    .requiredOption(...fromOption('received since then', nowMs))
    .option('--to <time>', 'and before; default: now', parseTime(nowMs))
    .addOption(
      new Option('--state <state>', 'state of the events')
        .choices(states)
        .default('delivery_failed' as const),
    )
    .option('--provider <name>', 'provider of the events', parseProvider)
    .option('--type <type>', 'type of the events')
    .addOption(
      new Option(
        '--origin <origin>',
        'origin of the events; default: all three, and never test events',
      ).choices(replayedOrigins),
    )
    .option('--rate <n>', `events per second, 1 to ${replayRateMax}`, parseWhole(1, replayRateMax), 50)
    .option('--key <text>', 'repeated commands with this key return the same replay')
    .option('--dry-run', 'counts the events, shows the first ones, and starts nothing')
    .option(...byOption)
    .option(...jsonOption)
    .action(
      cli.action((options, command) => {
        const { tenant, allTenants, state, provider, type, origin, from: fromMs, to: toMs } = options
        if (tenant === undefined && !allTenants)
          command.error('Give either --tenant ID|SLUG or --all-tenants')
        const filter = {
          ...{ fromMs, ...(toMs !== undefined && { toMs }) },
          ...(state !== 'any' && { state }),
          ...(provider !== undefined && { provider }),
          ...(type !== undefined && { type }),
          ...(origin !== undefined && { origin }),
        }
        const { rate: ratePerSecond, key, dryRun: isDryRun = false, by } = options
        const request = { filter, tenant, ratePerSecond, key, isDryRun, by, nowMs }
        return answer(options, (stores) => start(request, stores))
      }),
    )
}

/** Parses a provider by its neutral name or by that of its vendor. */
function parseProvider(text: string): ProviderName {
  const provider = neutralProviderName(text)
  if (provider !== undefined) return provider
  throw new InvalidArgumentError(`Allowed choices are ${acceptedProviderNames.join(', ')}.`)
}

interface One {
  readonly id: EventId
  readonly by?: string | undefined
  readonly nowMs: number
}

interface Start {
  readonly filter: Omit<ReplayFilter, 'tenantId'>
  /** Default: all tenants. */
  readonly tenant: string | undefined
  readonly ratePerSecond: number
  readonly key: string | undefined
  readonly isDryRun: boolean
  readonly by: string | undefined
  readonly nowMs: number
}

interface List {
  readonly tenant?: string | undefined
  readonly limit: number
  readonly after?: ReplayId | undefined
}

const noReplay = { problem: 'No replay has that id' } as const

const refusals = {
  payload_expired: 'its payload has expired, so there is nothing to deliver',
  not_enabled:
    'the provider is in verify-only mode: first set spec.walletRollout.stage of the tenant to enabled',
  no_callback: 'the tenant has no callback: pull the event with a subscription, or set spec.callback',
  cycles_exhausted: 'it has reached the maximum number of delivery cycles',
  test_event: 'a test event is sent once; send another one instead',
  changed: 'it is now in another delivery cycle',
  not_found: 'there is no such event, or its retention has ended',
} as const

async function replayOne({ id, by = whoRuns(), nowMs }: One, { pool, notify }: ToolStores): Promise<Result> {
  const result = await replayEvent(pool, { eventId: id, by }, nowMs)
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
  const { nowMs } = request
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

async function cancel(
  { id, by = whoRuns() }: { readonly id: ReplayId; readonly by?: string | undefined },
  { pool }: ToolStores,
): Promise<Result> {
  const result = await cancelReplay(pool, { id, by })
  if (result.kind === 'not_found') return noReplay
  if (result.kind === 'ended') return { problem: `The replay had already ended: ${result.job.state}` }
  return jobResult(result.job)
}

function refusalOf(result: Exclude<StartReplayResult, { readonly job: ReplayJob }>): Result {
  switch (result.kind) {
    case 'conflict':
      return { problem: 'The key was used for another replay: use a new key, or the same filter and rate' }
    case 'unknown_tenant':
      return noTenant
    case 'no_callback':
      return { problem: `The replay was not started: ${refusals.no_callback}` }
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
