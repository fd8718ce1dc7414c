import { Option } from '@commander-js/extra-typings'
import { parseEventId, randomToken } from '#internal/base/index.ts'
import type { ApiClient } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Problem, type Program, type Result } from './cli.ts'
import { type ConnectOptions, profileOption, withApi, withEitherApi } from './connect.ts'
import { parseReplayFilter, withFilters } from './event-filters.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import {
  internalReplays,
  preview,
  publicReplays,
  type ReplayApi,
  replayArgument,
  replayEvent,
  replayOptions,
  replayResult,
  replaysText,
  start,
} from './replay-jobs.ts'
import { findTenantId } from './tenants.ts'
import { parseId } from './values.ts'

const afterHelp = `
With a token for the internal API, replays events of any tenants; otherwise, with an API key, events of
the key's tenant. Forwarders run the replays; the webhook-id of an event stays the same.`

const tenantText = 'id, slug, or namespace/name; needs a token for the internal API'

export function addReplayCommand(program: Program, cli: Cli): void {
  const replay = program
    .command('replay')
    .description('delivers events again, and shows the progress')
    .addHelpText('after', afterHelp)
  replay
    .command('event')
    .description('delivers one event again')
    .argument('<id>', 'id of the event', parseId('evt', parseEventId))
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => onEither(cli, options, (api) => replayEvent(api, id))))
  addStartCommand(replay, cli)
  replay
    .command('status')
    .description("shows a replay's progress")
    .argument(...replayArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((replayId, options) =>
        onEither(cli, options, async (api) => {
          const reply = await api.read(replayId)
          return reply.kind === 'ok' ? replayResult(cli, reply.body) : reply
        }),
      ),
    )
  addListCommand(replay, cli)
  replay
    .command('cancel')
    .description('ends a replay; events that it has queued are delivered')
    .argument(...replayArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((id, options) => onEither(cli, options, (api) => cancel(cli, api, id))))
}

function onEither(cli: Cli, options: ConnectOptions, use: (api: ReplayApi) => Promise<Result>) {
  return withEitherApi(cli, options, {
    internal: (api) => use(internalReplays(api)),
    public: (api) => use(publicReplays(api)),
  })
}

function addStartCommand(replay: Program, cli: Cli): void {
  const { from, to, rate, key, dryRun, wait } = replayOptions(cli.clock.now())
  const command = replay
    .command('start')
    .description('delivers all events of a filter again')
    .addOption(new Option('--tenant <tenant>', `events of one tenant: ${tenantText}`).conflicts('allTenants'))
    .option('--all-tenants', 'events of all tenants')
    .option(...from)
    .option(...to)
  withFilters(command, 'startReplay')
    .option(...rate)
    .option(...key)
    .option(...dryRun)
    .option(...wait)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) => {
        const filter = parseReplayFilter(options)
        if (filter === undefined) return command.error('error: give --from TIME, or --replay ID')
        const { rate: ratePerSecond, key: given = randomToken(), wait: isAwaited = false } = options
        const run = (api: ReplayApi, tenantId?: string) => {
          const whole = { ...filter, tenantId }
          return options.dryRun === true
            ? preview(cli, api, whole)
            : start(cli, api, { filter: whole, ratePerSecond, key: given, isAwaited })
        }
        const ofTenant = async (api: ApiClient<'internal'>) => {
          const owner = await ownerOf(api, options)
          return 'problem' in owner ? owner : run(internalReplays(api), owner.id)
        }
        const { tenant, allTenants } = options
        // Only the internal API has these options. Without a token, its message says how to log in.
        if (tenant !== undefined || allTenants) return withApi(cli, 'internal', options, ofTenant)
        return withEitherApi(cli, options, { internal: ofTenant, public: (api) => run(publicReplays(api)) })
      }),
    )
}

/** Returns the id of the chosen tenant, or no id for all tenants. */
async function ownerOf(
  api: ApiClient<'internal'>,
  { tenant, allTenants }: { readonly tenant?: string | undefined; readonly allTenants?: true | undefined },
): Promise<{ readonly id?: string } | Problem> {
  if (tenant !== undefined) return findTenantId(api, tenant)
  return allTenants
    ? {}
    : {
        problem: 'With a token for the internal API, give either --tenant TENANT or --all-tenants',
        exitCode: exitCodes.misused,
      }
}

function addListCommand(replay: Program, cli: Cli): void {
  replay
    .command('list')
    .description('lists replays, newest first')
    .option('--tenant <tenant>', `replays of one tenant: ${tenantText}`)
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) => {
        const { tenant } = options
        const internal = async (api: ApiClient<'internal'>): Promise<Result> => {
          const found = tenant === undefined ? undefined : await findTenantId(api, tenant)
          if (found && 'problem' in found) return found
          const read = (page: object) => api.call('listReplays', { query: { ...page, tenantId: found?.id } })
          return listPages(options, read, (items) => replaysText(cli, items))
        }
        if (tenant !== undefined) return withApi(cli, 'internal', options, internal)
        return withEitherApi(cli, options, {
          internal,
          public: (api) => {
            const read = (page: object) => api.call('listReplays', { query: page })
            return listPages(options, read, (items) => replaysText(cli, items))
          },
        })
      }),
    )
}

async function cancel(cli: Cli, api: ReplayApi, replayId: string): Promise<Result> {
  const reply = await api.cancel(replayId)
  if (reply.kind === 'problem') return reply
  const { replay, isNew } = reply.body
  return isNew
    ? replayResult(cli, replay)
    : { problem: `The replay had already ended: ${replay.state}`, json: replay }
}
