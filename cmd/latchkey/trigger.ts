import { InvalidArgumentError } from '@commander-js/extra-typings'
import type { ApiClient, RequestBody } from './api-client.ts'
import { type Cli, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { parseProvider } from './values.ts'

const depthMax = 32
const afterHelp = `
The event has the provider's format and takes the path of a real call. --set changes members of its
payload: --set data.object.amount=4200 --set 'lines=[{"id":1}]'. A value that is JSON is taken as such,
anything else as a text: --set 'total="42.00"' is a text, too. A dot in a name is written as \\.`

export function addTriggerCommand(program: Program, cli: Cli): void {
  program
    .command('trigger')
    .description('simulates an event of a provider and sends it to the callback')
    .addHelpText('after', afterHelp)
    .argument(
      '<provider>',
      'provider of the tenant, or its vendor or alias, such as card, stripe or slack',
      parseProvider,
    )
    .argument('<type>', 'normalized type, such as payment.succeeded; of a declared provider also a raw type')
    .option('--set <path=value>', 'sets a member of the payload; repeatable', setMember)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((provider, type, { set, ...options }) => {
        const overrides = set && objectOf(set)
        return withApi(cli, 'public', options, (api) => simulate(cli, api, { provider, type, overrides }))
      }),
    )
}

async function simulate(
  { tables }: Cli,
  api: ApiClient<'public'>,
  body: RequestBody<'simulateEvent'>,
): Promise<Result> {
  const reply = await api.call('simulateEvent', { body })
  if (reply.kind === 'problem') return reply
  const { simulationId, event, isSigned } = reply.body
  const text = tables.details([
    ['event', event.id],
    ['type', `${event.type} (${event.providerRawType})`],
    ['provider’s id', event.sourceEventId],
    ['simulation', simulationId],
    [
      'signature',
      isSigned ? 'verified, as that of a real call' : 'not checked: this signature cannot be simulated',
    ],
  ])
  return { text, json: reply.body }
}

type Members = Map<string, unknown>

function setMember(text: string, members: Members = new Map()): Members {
  const mark = text.indexOf('=')
  const path = text.slice(0, mark).split(/(?<!\\)\./)
  const names = path.map((name) => name.replaceAll('\\.', '.'))
  if (mark < 1 || names.includes(''))
    throw new InvalidArgumentError('It must be path=value, such as data.object.amount=4200.')
  if (names.length > depthMax) throw new InvalidArgumentError(`Its path has more than ${depthMax} names.`)
  const last = names.pop() ?? ''
  let place = members
  for (const name of names) {
    const inner: unknown = place.get(name) ?? new Map<string, unknown>()
    if (!(inner instanceof Map))
      throw new InvalidArgumentError(`It conflicts with an earlier --set, which gives ${name} a value.`)
    place.set(name, inner)
    place = inner as Members
  }
  if (place.has(last))
    throw new InvalidArgumentError(`It conflicts with an earlier --set, which gives ${last} a value.`)
  place.set(last, parseValue(text.slice(mark + 1)))
  return members
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

function objectOf(members: Members): Record<string, unknown> {
  const entries = [...members].map(([name, value]) => [
    name,
    value instanceof Map ? objectOf(value as Members) : value,
  ])
  return Object.fromEntries(entries) as Record<string, unknown>
}
