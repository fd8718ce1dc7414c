import type { ApiClient, Reply, Schemas } from './api-client.ts'
import { type Cli, exitCodes, type Result } from './cli.ts'
import { filterWords, parseReplayId, type ReplayFilter } from './event-filters.ts'
import { type Columns, printable } from './tables.ts'
import { fromOption, parseTime, parseWhole } from './values.ts'

type Replay = Schemas<'public'>['Replay']
type EventSummary = Schemas<'public'>['EventSummary']

type Changer<Request extends unknown[]> = (
  ...request: Request
) => Promise<Reply<Schemas<'public'>['ReplayChanged']>>

export interface ReplayApi {
  readonly preview: (filter: ReplayFilter) => Promise<Reply<Schemas<'public'>['ReplayPreview']>>
  readonly start: Changer<
    [body: ReplayFilter & { readonly ratePerSecond: number | undefined }, idempotencyKey: string]
  >
  readonly read: (replayId: string) => Promise<Reply<Replay>>
  readonly cancel: Changer<[replayId: string]>
  readonly replayEvent: (eventId: string) => Promise<Reply<Schemas<'public'>['EventReplayed']>>
}

export function publicReplays(api: ApiClient<'public'>): ReplayApi {
  return {
    preview: (body) => api.call('previewReplay', { body }),
    start: (body, idempotencyKey) => api.call('startReplay', { body, idempotencyKey }),
    read: (replayId) => api.call('readReplay', { path: { replayId } }),
    cancel: (replayId) => api.call('cancelReplay', { path: { replayId } }),
    replayEvent: (eventId) => api.call('replayEvent', { path: { eventId }, body: {} }),
  }
}

export function internalReplays(api: ApiClient<'internal'>): ReplayApi {
  return {
    preview: (body) => api.call('previewReplay', { body }),
    start: (body, idempotencyKey) => api.call('startReplay', { body, idempotencyKey }),
    read: (replayId) => api.call('readReplay', { path: { replayId } }),
    cancel: (replayId) => api.call('cancelReplay', { path: { replayId } }),
    replayEvent: (eventId) => api.call('replayEvent', { path: { eventId }, body: {} }),
  }
}

const rateMax = 1_000
const waitAgainMs = 1_000
const waitMsMax = 600_000

export const replayArgument = ['<id>', 'id of the replay', parseReplayId] as const

/** @param nowMs base of relative times */
export function replayOptions(nowMs: number) {
  return {
    from: fromOption('events received at this time or later', nowMs),
    to: ['--to <time>', 'events received before this time; default: now', parseTime(nowMs)],
    rate: ['--rate <n>', `events per second, 1 to ${rateMax}; default: 50`, parseWhole(1, rateMax)],
    key: ['--key <text>', 'repeated commands with this key start only one job; then give --from as a date'],
    dryRun: ['--dry-run', 'counts the events, shows the first ones, and starts nothing'],
    wait: ['--wait', `waits until the job ends, at most ${waitMsMax / 60_000} minutes`],
  } as const
}

export interface ReplayJob {
  readonly filter: ReplayFilter
  readonly ratePerSecond: number | undefined
  /** Repeated requests with this key start one replay. */
  readonly key: string
  readonly isAwaited: boolean
}

export async function preview(cli: Cli, api: ReplayApi, filter: ReplayFilter) {
  const reply = await api.preview(filter)
  if (reply.kind === 'problem') return reply
  const { total, examples, newest } = reply.body
  const isShown = newest === undefined || examples.some(({ id }) => id === newest.id)
  const shown = isShown ? examples : [...examples, newest]
  const text = `${countText(total)} events match\n${eventsText(cli, shown)}`
  return { text, json: reply.body, isEmpty: total.count === 0 }
}

export async function start(cli: Cli, api: ReplayApi, job: ReplayJob): Promise<Result> {
  const { filter, ratePerSecond, key: idempotencyKey } = job
  const started = await api.start({ ...filter, ratePerSecond }, idempotencyKey)
  if (started.kind === 'problem') return started
  const { replay } = started.body
  return job.isAwaited ? awaitEnd(cli, api, replay) : replayResult(cli, replay)
}

async function awaitEnd(cli: Cli, api: ReplayApi, started: Replay): Promise<Result> {
  let replay = started
  const untilMs = performance.now() + waitMsMax
  while (replay.endedAt === null && performance.now() < untilMs) {
    await Bun.sleep(waitAgainMs)
    const reply = await api.read(replay.id)
    // Keeps waiting while the API is unavailable, because the job continues.
    if (reply.kind === 'problem' && reply.exitCode !== exitCodes.unavailable) return reply
    if (reply.kind === 'ok') replay = reply.body
  }
  if (replay.state === 'completed') return replayResult(cli, replay)
  const problem =
    replay.endedAt === null
      ? `The replay ${replay.id} did not end within ${waitMsMax / 60_000} minutes and continues`
      : `The replay ${replay.id} has ended: ${replay.state}${replay.cause === null ? '' : `, ${replay.cause}`}`
  return { problem: printable(problem), json: replay }
}

export async function replayEvent(api: ReplayApi, eventId: string): Promise<Result> {
  const reply = await api.replayEvent(eventId)
  if (reply.kind === 'problem') return reply
  const { cycle, isNew } = reply.body
  const text = isNew
    ? `Delivery cycle ${cycle} begins now`
    : `Delivery cycle ${cycle} is in progress: nothing was changed`
  return { text, json: reply.body }
}

export function replayResult({ tables }: Cli, replay: Replay): Result {
  const { filter, skipped } = replay
  const skips = Object.entries(skipped).map(([cause, count]) => `${count} ${cause}`)
  const earlier = filter.replayId && `of ${filter.replayId}${filter.outcome ? `, ${filter.outcome}` : ''}`
  const parts = [earlier, filter.state ?? 'any state', ...filterWords(filter)]
  const ids = filter.ids && `${filter.ids.length} ids`
  const until = filter.to ?? 'its start'
  const text = tables.details([
    ['replay', replay.id],
    ['state', replay.state],
    ['waits for', replay.isWaiting ? 'the tenant’s retries' : undefined],
    ['tenant', filter.tenantId ?? 'all'],
    ['filter', `${[...parts, ids].filter(Boolean).join(', ')}, from ${filter.from} to ${until}`],
    ['events', countText(replay.total)],
    ['progress', replay.progress],
    ['skipped', skips.join(', ')],
    ['failed', failedHint(replay)],
    ['rate', `${replay.ratePerSecond} a second`],
    ['requested by', `${replay.requestedBy}, ${replay.createdAt}`],
    ['cause', replay.cause],
    ['ended at', replay.endedAt],
  ])
  return { text, json: replay }
}

function failedHint({ id, outcome }: Replay): string | undefined {
  const count = outcome?.failedCount ?? 0
  return count === 0 ? undefined : `latchkey events list --replay ${id} --outcome failed`
}

export function replaysText({ tables }: Cli, replays: readonly Replay[]): string {
  const columns: Columns<Replay> = {
    'STARTED AT': 'createdAt',
    ID: 'id',
    STATE: 'state',
    EVENTS: ({ total }) => countText(total),
    PROGRESS: 'progress',
    TENANT: ({ filter }) => filter.tenantId ?? 'all',
    'REQUESTED BY': 'requestedBy',
  }
  return tables.list(replays, columns, 'No replays')
}

export function eventsText({ tables }: Cli, events: readonly EventSummary[]): string {
  const isListed = events.some(({ attemptCount }) => attemptCount !== undefined)
  const columns: Columns<EventSummary> = {
    'RECEIVED AT': 'receivedAt',
    ID: 'id',
    PROVIDER: 'provider',
    TYPE: 'type',
    STATE: 'state',
    ORIGIN: ({ origin }) => String(origin['kind']),
  }
  const ofAttempts: Columns<EventSummary> = {
    ATTEMPTS: 'attemptCount',
    'LAST STATUS': ({ lastStatus, lastCause }) => lastStatus ?? lastCause,
    'NEXT ATTEMPT': 'nextAttemptAt',
  }
  return tables.list(events, isListed ? { ...columns, ...ofAttempts } : columns, 'No events')
}

function countText({ count, isExact }: Replay['total']): string {
  return isExact ? String(count) : `more than ${count}`
}
