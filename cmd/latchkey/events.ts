import { Option } from '@commander-js/extra-typings'
import { parseEventId, randomToken } from '#internal/base/index.ts'
import { type ApiClient, memberText, type RequestBody, type Schemas } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { curlOf, readSigningKey } from './event-curl.ts'
import { addTailCommand } from './listen.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import { choices } from './public-api.generated.ts'
import { printable } from './tables.ts'
import { fromOption, isoTime, parseId, parseTime, parseUrl, parseWhole } from './values.ts'

type Api = ApiClient<'public'>
type EventSummary = Schemas<'public'>['EventSummary']
type Replay = Schemas<'public'>['Replay']

const eventArgument = ['<id>', 'id of the event', parseId('evt', parseEventId)] as const
/** Address at which a callback is developed. */
const curlUrl = 'http://127.0.0.1:3000/'
const rateMax = 1_000
const waitAgainMs = 1_000
const waitMsMax = 600_000

const afterHelp = `
With an id, delivers this event again. With --from and other filters, counts the events, shows the
first ones, asks, and starts a job that delivers them. Both keep the webhook-id of an event.`

/** Adds `latchkey events list|get|payload|explain|retry|replay`, about the events of the key's tenant. */
export function addEventsCommand(program: Program, cli: Cli): void {
  const events = program.command('events').description('lists, explains and replays events')
  addListCommand(events, cli)
  addTailCommand(events, cli)
  addGetCommand(events, cli)
  events
    .command('payload')
    .description('prints the payload as received, which the audit log records')
    .argument(...eventArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => withApi(cli, 'public', options, (api) => readPayload(api, id))))
  events
    .command('explain')
    .description('says in a sentence why an event is where it is, and what to do')
    .argument(...eventArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => withApi(cli, 'public', options, (api) => explain(cli, api, id))))
  events
    .command('retry')
    .description('attempts the delivery of an event now')
    .argument(...eventArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => withApi(cli, 'public', options, (api) => retry(api, id))))
  addReplayCommand(events, cli)
}

function addListCommand(events: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  const { provider, state, origin } = choices.listEvents
  events
    .command('list')
    .description('lists events, newest first')
    .addOption(new Option('--provider <name>', 'of one provider').choices(provider))
    .option('--type <type>', 'of one normalized type, such as payment.succeeded')
    .addOption(new Option('--state <state>', 'in one state').choices(state))
    .addOption(new Option('--origin <origin>', 'of one origin').choices(origin))
    .option(...fromOption('received since then', nowMs))
    .option('--to <time>', 'and before', parseTime(nowMs))
    .option('--id <id>', 'the event of this id', parseId('evt', parseEventId))
    .option('--source-event-id <id>', 'events of this id of the provider')
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, (api) => {
          const { type, id, sourceEventId } = options
          const times = { from: isoTime(options.from), to: isoTime(options.to) }
          const words = { provider: options.provider, state: options.state, origin: options.origin }
          const filter = { ...times, ...words, type, id, sourceEventId }
          const read = (page: object) => api.call('listEvents', { query: { ...filter, ...page } })
          return listPages(options, read, (items) => eventsText(cli, items))
        }),
      ),
    )
}

function addGetCommand(events: Program, cli: Cli): void {
  events
    .command('get')
    .description('shows an event with its attempts, or its delivery as a curl command')
    .argument(...eventArgument)
    .option(
      '--curl',
      'prints the delivery as a command for a POSIX shell, signed now; the audit log records that the payload was read',
    )
    .addOption(
      new Option('--to <url>', `URL that the curl command calls; default: ${curlUrl}`)
        .argParser(parseUrl)
        .implies({ curl: true }),
    )
    .addOption(
      new Option(
        '--secret-file <path>',
        'file with the signing secret of the callback; default: LATCHKEY_SIGNING_SECRET',
      ).implies({ curl: true }),
    )
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((id, { curl, to = curlUrl, secretFile, ...options }) =>
        withApi(cli, 'public', options, async (api, { signingSecret }) => {
          if (!curl) return get(cli, api, id)
          const key = await readSigningKey(secretFile, signingSecret)
          return 'problem' in key ? key : curlOf(api, { id, url: to, key: key.key, nowMs: cli.clock.now() })
        }),
      ),
    )
}

function eventsText({ tables }: Cli, events: readonly EventSummary[]): string {
  const rows = events.map(({ receivedAt, id, provider, type, state, origin }) => [
    ...[receivedAt, id, provider, type, state, String(origin['kind'])],
  ])
  return tables.list(['RECEIVED AT', 'ID', 'PROVIDER', 'TYPE', 'STATE', 'ORIGIN'], rows, 'No events')
}

async function get(cli: Cli, api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('readEvent', { path: { eventId } })
  return reply.kind === 'ok' ? { text: detailText(cli, reply.body), json: reply.body } : reply
}

function detailText({ tables }: Cli, detail: Schemas<'public'>['EventDetail']): string {
  const { event, delivery, attempts, hasEarlierAttempts } = detail
  const due = delivery?.isClaimed ? 'an attempt is in progress' : delivery?.dueAt
  const fields = tables.details([
    ['event', event.id],
    ['type', `${event.type} (${event.provider} ${event.providerRawType})`],
    ['provider’s id', event.sourceEventId],
    ['state', event.state],
    ['origin', String(event.origin['kind'])],
    ['occurred at', event.occurredAt],
    ['received at', event.receivedAt],
    ['completed at', event.completedAt],
    ['next attempt', due],
    ['delivery cycle', event.cycle],
    ['payload', `${event.payloadBytes} bytes, kept until ${event.payloadExpiresOn}`],
  ])
  const rows = attempts.map(({ cycle, attempt, startedAt, durationMs, outcome, status, cause }) => [
    ...[cycle, attempt, startedAt, durationMs, outcome, status, cause],
  ])
  const head = ['CYCLE', 'ATTEMPT', 'STARTED AT', 'MS', 'OUTCOME', 'STATUS', 'CAUSE']
  const earlier = hasEarlierAttempts ? ['Earlier attempts are left out'] : []
  return [fields, '', tables.list(head, rows, 'No attempts'), ...earlier].join('\n')
}

async function readPayload(api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('readEventPayload', { path: { eventId } })
  if (reply.kind === 'problem') return reply
  const text = memberText(reply.text, 'payload')
  return { text, jsonText: text }
}

async function explain({ tables }: Cli, api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('explainEvent', { path: { eventId } })
  if (reply.kind === 'problem') return reply
  const { sentence, todo, startedAt, nextChangeAt } = reply.body
  const more = tables.details([
    ['since', startedAt],
    ['changes at', nextChangeAt],
    ['to do', todo],
  ])
  return { text: [printable(sentence), more].filter(Boolean).join('\n'), json: reply.body }
}

const changes: Readonly<Record<string, string>> = {
  new_cycle: 'Another delivery cycle begins now',
  due_now: 'The next attempt is made now',
  none: 'An attempt is due or in progress: nothing was changed',
}

async function retry(api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('retryEvent', { path: { eventId } })
  if (reply.kind === 'problem') return reply
  const { change, cycle } = reply.body
  return { text: `${changes[change] ?? change} (delivery cycle ${cycle})`, json: reply.body }
}

function addReplayCommand(events: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  const values = choices.startReplay
  events
    .command('replay')
    .description('delivers an event, or all events of a filter, again')
    .addHelpText('after', afterHelp)
    .argument('[id]', 'id of the event', parseId('evt', parseEventId))
    .option(...fromOption('events received since then', nowMs))
    .option('--to <time>', 'and before; default: now', parseTime(nowMs))
    .addOption(
      new Option('--state <state>', 'in one state; default: delivery_failed').choices([
        ...values.state,
        'any',
      ] as const),
    )
    .addOption(new Option('--provider <name>', 'of one provider').choices(values.provider))
    .option('--type <type>', 'of one normalized type')
    .addOption(new Option('--origin <origin>', 'of one origin').choices(values.origin))
    .option('--rate <n>', `events per second, 1 to ${rateMax}; default: 50`, parseWhole(1, rateMax))
    .option('--key <text>', 'repeated commands with this key start one job; give --from as a date then')
    .option('--dry-run', 'counts the events, and starts nothing')
    .option('--yes', 'starts the job without a question')
    .option('--wait', `waits until the job ends, at most ${waitMsMax / 60_000} minutes`)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((id, options, command) => {
        const { profile: _profile, json: _json, ...given } = options
        if (id !== undefined && Object.keys(given).length > 0)
          return command.error('error: give either the id of an event, or filters')
        if (id !== undefined) return withApi(cli, 'public', options, (api) => replayOne(api, id))
        const { from, to, state = 'delivery_failed', provider, type, origin } = given
        if (from === undefined)
          return command.error('error: give the id of an event, or --from TIME and other filters')
        const times = { from: new Date(from).toISOString(), to: isoTime(to) }
        const filter = { ...times, provider, type, origin, state: state === 'any' ? undefined : state }
        const { rate: ratePerSecond, key = randomToken(), dryRun, yes, wait } = given
        const flags = { isDryRun: dryRun === true, isAgreed: yes === true, isAwaited: wait === true }
        const job = { filter, ratePerSecond, key, ...flags }
        return withApi(cli, 'public', options, (api) => replayMany(cli, api, job))
      }),
    )
}

async function replayOne(api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('replayEvent', { path: { eventId }, body: {} })
  if (reply.kind === 'problem') return reply
  const { cycle, isNew } = reply.body
  const text = isNew
    ? `Delivery cycle ${cycle} begins now`
    : `Delivery cycle ${cycle} is in progress: nothing was changed`
  return { text, json: reply.body }
}

interface Job {
  readonly filter: RequestBody<'previewReplay'>
  readonly ratePerSecond: number | undefined
  readonly key: string
  readonly isDryRun: boolean
  readonly isAgreed: boolean
  readonly isAwaited: boolean
}

async function replayMany(cli: Cli, api: Api, job: Job): Promise<Result> {
  const preview = await api.call('previewReplay', { body: job.filter })
  if (preview.kind === 'problem') return preview
  const { total, examples } = preview.body
  const text = `${countText(total)} events match\n${eventsText(cli, examples)}`
  if (job.isDryRun || total.count === 0) return { text: `${text}\nNothing was started`, json: preview.body }
  if (!job.isAgreed) {
    cli.terminal.complain(text)
    const problem = await cli.confirm('Deliver them again?')
    if (problem) return problem
  }
  const { filter, ratePerSecond, key: idempotencyKey } = job
  const started = await api.call('startReplay', { body: { ...filter, ratePerSecond }, idempotencyKey })
  if (started.kind === 'problem') return started
  const { replay } = started.body
  return job.isAwaited ? awaitEnd(cli, api, replay) : replayResult(cli, replay)
}

async function awaitEnd(cli: Cli, api: Api, started: Replay): Promise<Result> {
  let replay = started
  const untilMs = performance.now() + waitMsMax
  while (replay.endedAt === null && performance.now() < untilMs) {
    await Bun.sleep(waitAgainMs)
    const reply = await api.call('readReplay', { path: { replayId: replay.id } })
    // The job goes on while the API is unavailable.
    if (reply.kind === 'problem' && reply.exitCode !== exitCodes.unavailable) return reply
    if (reply.kind === 'ok') replay = reply.body
  }
  if (replay.state === 'completed') return replayResult(cli, replay)
  const problem =
    replay.endedAt === null
      ? `The replay ${replay.id} has not ended within ${waitMsMax / 60_000} minutes, and goes on`
      : `The replay ${replay.id} has ended: ${replay.state}${replay.cause === null ? '' : `, ${replay.cause}`}`
  return { problem: printable(problem), json: replay }
}

function replayResult({ tables }: Cli, replay: Replay): Result {
  const skipped = Object.entries(replay.skipped).map(([cause, count]) => `${count} ${cause}`)
  const text = tables.details([
    ['replay', replay.id],
    ['state', replay.state],
    ['events', countText(replay.total)],
    ['queued', replay.queuedCount],
    ['skipped', skipped.join(', ')],
    ['rate', `${replay.ratePerSecond} a second`],
    ['ended at', replay.endedAt],
  ])
  return { text, json: replay }
}

function countText({ count, isExact }: Replay['total']): string {
  return isExact ? String(count) : `More than ${count}`
}
