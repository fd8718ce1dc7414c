import { Option } from '@commander-js/extra-typings'
import {
  memberText,
  pageItemsDefault,
  pageItemsMax,
  parseEventId,
  randomToken,
} from '#internal/base/index.ts'
import type { ApiClient, Schemas } from './api-client.ts'
import { type Cli, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { parseFilters, parseReplayFilter, withFilters } from './event-filters.ts'
import { addTailCommand } from './listen.ts'
import { curlOf } from './local-call.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import {
  eventsText,
  preview,
  publicReplays,
  type ReplayApi,
  type ReplayJob,
  replayEvent,
  replayOptions,
  start,
} from './replay-jobs.ts'
import { chooseSigningKey, secretOption } from './signing-key.ts'
import { type Columns, printable } from './tables.ts'
import { fromOption, isoTime, parseId, parseTime, parseUrl, parseWhole, typeHint } from './values.ts'

type Api = ApiClient<'public'>

/** Option for the maximum number of matches. A search reads one page. */
const searchLimitOption = [
  '--limit <n>',
  `maximum number, 1 to ${pageItemsMax}`,
  parseWhole(1, pageItemsMax),
  pageItemsDefault,
] as const
const eventArgument = ['<id>', 'id of the event', parseId('evt', parseEventId)] as const
/** Default URL of the curl command: a callback in development. */
const curlUrl = 'http://127.0.0.1:3000/'

const afterHelp = `
With an id, delivers this event again. With --from and other filters, counts the events, shows the
first ones, asks, and starts a job that delivers them. Both keep the webhook-id of an event.`

const retryHelp = `
Brings the next attempt of the retry schedule forward: it uses that attempt, and if it fails, the one after
it is due as long afterwards as the schedule says. An event that is finished begins another delivery
cycle, as with latchkey events replay, which changes nothing while a cycle is in progress.`

/** Adds the commands for events of the key's tenant. */
export function addEventsCommand(program: Program, cli: Cli): void {
  const events = program.command('events').description('lists, explains and replays events')
  addListCommand(events, cli)
  addSearchCommand(events, cli)
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
    .description('explains the state of an event in one sentence, with the next step')
    .addHelpText('after', '\nFor a tenant that receives nothing: latchkey tenants why <tenant>')
    .argument(...eventArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => withApi(cli, 'public', options, (api) => explain(cli, api, id))))
  events
    .command('retry')
    .description('attempts the delivery of an event now')
    .addHelpText('after', retryHelp)
    .argument(...eventArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => withApi(cli, 'public', options, (api) => retry(api, id))))
  addReplayCommand(events, cli)
}

function addListCommand(events: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  withFilters(events.command('list').description('lists events, newest first'), 'listEvents')
    .option(...fromOption('received since then', nowMs))
    .option('--to <time>', 'and before', parseTime(nowMs))
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, (api) => {
          const times = { from: isoTime(options.from), to: isoTime(options.to) }
          const filter = parseFilters('listEvents', options)
          const read = (page: object) => api.call('listEvents', { query: { ...filter, ...times, ...page } })
          const textOf = (items: Parameters<typeof eventsText>[1]) =>
            items.length === 0 ? `${eventsText(cli, items)}${typeHint(filter.type)}` : eventsText(cli, items)
          return listPages(options, read, textOf)
        }),
      ),
    )
}

function addSearchCommand(events: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  const search = events
    .command('search')
    .description('searches the payloads of events, newest first, which the audit log records')
    .option('--text <text>', 'text in the JSON of the payload, 3 to 200 characters, in the same case')
    .option('--path <path>', 'or a path such as data.object.id; together with --equals')
    .option('--equals <value>', 'value at the path')
  withFilters(search, 'searchPayloads')
    .requiredOption(...fromOption('received since then', nowMs))
    .option('--to <time>', 'and before', parseTime(nowMs))
    .option(...searchLimitOption)
    .option('--after <id>', 'continues an earlier search', parseId('evt', parseEventId))
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, async (api) => {
          const { text, path, equals, limit, after } = options
          const filter = parseFilters('searchPayloads', options)
          const times = { from: new Date(options.from).toISOString(), to: isoTime(options.to) }
          const body = { ...filter, ...times, text, path, equals, limit, after }
          const reply = await api.call('searchPayloads', { body })
          if (reply.kind === 'problem') return reply
          const { items, examinedCount, skippedCount, searchedTo, next } = reply.body
          const left = skippedCount > 0 ? `, ${skippedCount} left out: expired or larger than 1 MiB` : ''
          const more = next === undefined ? '' : `; continue with --after ${next}`
          const far = `${examinedCount} payloads searched, back to ${searchedTo}${left}${more}`
          const hint = items.length === 0 ? typeHint(filter.type) : ''
          return { text: `${eventsText(cli, items)}${hint}\n${far}`, json: reply.body }
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
    .addOption(new Option(...secretOption).implies({ curl: true }))
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((id, { curl, to = curlUrl, secretFile, ...options }) =>
        withApi(cli, 'public', options, async (api, { signingSecret }) => {
          if (!curl) return get(cli, api, id)
          const key = await chooseSigningKey(api, { path: secretFile, given: signingSecret })
          return 'problem' in key ? key : curlOf(api, { id, url: to, key: key.key, nowMs: cli.clock.now() })
        }),
      ),
    )
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
  const columns: Columns<(typeof attempts)[number]> = {
    CYCLE: 'cycle',
    ATTEMPT: 'attempt',
    'STARTED AT': 'startedAt',
    MS: 'durationMs',
    OUTCOME: 'outcome',
    STATUS: 'status',
    CAUSE: 'cause',
    'STEPS (MS)': ({ exchange }) => timingText(exchange),
  }
  const earlier = hasEarlierAttempts ? ['Earlier attempts are left out'] : []
  return [
    fields,
    '',
    tables.list(attempts, columns, 'No attempts'),
    ...earlier,
    ...answerLines(attempts),
  ].join('\n')
}

const answerLinesMax = 10
const answerLineCharsMax = 200

/** Shows the start of the last response body, which the service has redacted. */
function answerLines(attempts: Schemas<'public'>['EventDetail']['attempts']): string[] {
  const last = attempts.at(-1)
  const lines = last?.answer?.trim().split(/\r?\n/) ?? []
  if (last === undefined || lines.join('') === '') return []
  const isCut = lines.length > answerLinesMax || lines.some((line) => line.length > answerLineCharsMax)
  const shown = lines.slice(0, answerLinesMax).map((line) => printable(line.slice(0, answerLineCharsMax)))
  const title = `Response to attempt ${last.attempt}${isCut ? ', cut; --json has more' : ''}:`
  return ['', title, ...shown]
}

/** Formats step durations: `dns 4, connect 12, tls 22, first byte 480`. */
function timingText(
  exchange: Schemas<'public'>['EventDetail']['attempts'][number]['exchange'],
): string | undefined {
  if (exchange === undefined) return undefined
  const { isReused, dnsMs, connectMs, tlsMs, firstByteMs } = exchange
  const steps = { dns: dnsMs, connect: connectMs, tls: tlsMs, 'first byte': firstByteMs }
  const known = Object.entries(steps).flatMap(([name, ms]) => (ms === undefined ? [] : [`${name} ${ms}`]))
  return [...(isReused ? ['connection reused'] : []), ...known].join(', ')
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
  const { position, sentence, todo, startedAt, nextChangeAt } = reply.body
  const more = tables.details([
    ['since', startedAt],
    ['changes at', nextChangeAt],
    ['to do', todo],
    ['retry', position === 'waiting' ? `latchkey events retry ${eventId}` : undefined],
  ])
  return { text: [printable(sentence), more].filter(Boolean).join('\n'), json: reply.body }
}

const changes: Readonly<Record<string, string>> = {
  new_cycle: 'Another delivery cycle begins now',
  due_now: 'The next attempt of the schedule is made now; if it fails, the schedule goes on from there',
  none: 'An attempt is due or in progress: nothing was changed',
}

async function retry(api: Api, eventId: string): Promise<Result> {
  const reply = await api.call('retryEvent', { path: { eventId } })
  if (reply.kind === 'problem') return reply
  const { change, cycle } = reply.body
  return { text: `${changes[change] ?? change} (delivery cycle ${cycle})`, json: reply.body }
}

function addReplayCommand(events: Program, cli: Cli): void {
  const { from, to, rate, key, dryRun, wait } = replayOptions(cli.clock.now())
  const replay = events
    .command('replay')
    .description('delivers an event, or all events of a filter, again')
    .addHelpText('after', afterHelp)
    .argument('[id]', 'id of the event', parseId('evt', parseEventId))
    .option(...from)
    .option(...to)
  withFilters(replay, 'startReplay')
    .option(...rate)
    .option(...key)
    .option(...dryRun)
    .option('--yes', 'starts the job without confirmation')
    .option(...wait)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((id, options, command) => {
        const { profile: _profile, json: _json, ...given } = options
        if (id !== undefined && Object.keys(given).length > 0)
          return command.error('error: give either the id of an event, or filters')
        if (id !== undefined)
          return withApi(cli, 'public', options, (api) => replayEvent(publicReplays(api), id))
        const filter = parseReplayFilter(given)
        if (filter === undefined)
          return command.error(
            'error: give the id of an event, --from TIME and other filters, or --replay ID',
          )
        const {
          rate: ratePerSecond,
          key: givenKey = randomToken(),
          dryRun: isDryRun,
          yes,
          wait: isAwaited = false,
        } = given
        const job = { filter, ratePerSecond, key: givenKey, isAwaited }
        const asking = { isDryRun: isDryRun === true, isAgreed: yes === true }
        return withApi(cli, 'public', options, (api) => replayMany(cli, publicReplays(api), job, asking))
      }),
    )
}

async function replayMany(
  cli: Cli,
  api: ReplayApi,
  job: ReplayJob,
  { isDryRun, isAgreed }: { readonly isDryRun: boolean; readonly isAgreed: boolean },
): Promise<Result> {
  const shown = await preview(cli, api, job.filter)
  if ('problem' in shown) return shown
  const { text, json, isEmpty } = shown
  if (isDryRun || isEmpty) return { text: `${text}\nNothing was started`, json }
  if (!isAgreed) {
    cli.terminal.complain(text)
    const problem = await cli.confirm('Deliver them again?')
    if (problem) return problem
  }
  return start(cli, api, job)
}
