import { InvalidArgumentError } from '@commander-js/extra-typings'
import { memberText } from '#internal/base/index.ts'
import type { ApiClient } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { parseWhole } from './values.ts'

const ofMiddleware = `
A record of the middleware of the client libraries has the scope METHOD ROUTE, and the key PRINCIPAL:KEY without
the quotation marks of the header: latchkey records get "POST /charges" -- -:order-1 for the principal 'none', which is "-".
Any other principal is a hash of the caller's text:
  printf %s ada | openssl dgst -sha256 -binary | base64 | tr +/ -_ | cut -c1-22`

const ofUnfinished = `
For an attempt that ended without a result, after you have found out that its operation happened.`

export function addRecordsCommand(program: Program, cli: Cli): void {
  const records = program.command('records').description('shows, saves and releases idempotency records')
  records
    .command('get')
    .description('shows the saved response of a scope and a key')
    .argument('<scope>', 'namespace of the key')
    .argument('<key>', 'idempotency key')
    .addHelpText('after', ofMiddleware)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((scope, key, options) =>
        withApi(cli, 'public', options, (api) => get(cli, api, { scope, key })),
      ),
    )
  records
    .command('save')
    .description('saves the response of an operation that has happened without one')
    .argument('<scope>', 'namespace of the key')
    .argument('<key>', 'idempotency key')
    .argument('<body>', 'body of the response: JSON', parseJsonText)
    .addHelpText('after', ofUnfinished)
    .option('--status <status>', 'HTTP status of the response', parseWhole(100, 599), 200)
    .option('--yes', 'saves it without confirmation')
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((scope, key, body, options) =>
        withApi(cli, 'public', options, async (api) => {
          const { status, yes } = options
          if (yes !== true) {
            const problem = await cli.confirm(
              'Later calls with this key get this response, and the operation does not run. Save it?',
            )
            if (problem) return problem
          }
          return save(api, { scope, key, status, body })
        }),
      ),
    )
  records
    .command('release')
    .description('releases a lock, or removes a saved response so that its operation can run again')
    .argument('<scope>', 'namespace of the key')
    .argument('<key>', 'idempotency key')
    .option('--lock-token <token>', 'releases the lock of this token, and leaves a saved response')
    .option('--yes', 'removes a saved response without confirmation')
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((scope, key, options) =>
        withApi(cli, 'public', options, async (api) => {
          const { lockToken, yes } = options
          if (lockToken === undefined && yes !== true) {
            const problem = await cli.confirm('Its operation can then run again. Remove the response?')
            if (problem) return problem
          }
          return remove(api, { scope, key, lockToken })
        }),
      ),
    )
}

interface Address {
  readonly scope: string
  readonly key: string
}

async function get({ tables }: Cli, api: ApiClient<'public'>, query: Address): Promise<Result> {
  const reply = await api.call('fetchRecord', { query })
  if (reply.kind === 'problem') return reply
  if (!reply.body.cached)
    return {
      problem: `No response is saved under this scope and key. An attempt may run, or have ended without a result: see the lock history on the dashboard, or the guide of records, Decide about an unfinished attempt${hintOf(query)}`,
      exitCode: exitCodes.notFound,
    }
  const { status, headers } = reply.body.record
  const record = memberText(reply.text, 'record')
  const head = tables.details([['status', status], ...Object.entries(headers)])
  // Prints the body as received, because parsing could change its numbers.
  return { text: `${head}\n\n${memberText(record, 'body')}`, jsonText: record }
}

const lockSeconds = 30

/** Acquires the lock of a key and saves a response, so that the save cannot overtake a running attempt. */
async function save(
  api: ApiClient<'public'>,
  { scope, key, status, body }: Address & { readonly status: number; readonly body: unknown },
): Promise<Result> {
  const check = await api.call('checkRecord', { body: { scope, key, lockSeconds } })
  if (check.kind === 'problem') return check
  if (check.body.cached) return { problem: 'A response is saved already: see latchkey records get' }
  if (!check.body.locked)
    return { problem: 'An attempt holds the lock, and may still save its response: try again later' }
  const { lockToken, takenOver = false } = check.body
  const reply = await api.call('saveRecord', { body: { scope, key, lockToken, status, headers: {}, body } })
  if (reply.kind === 'problem') return reply
  const what = takenOver ? 'in place of an attempt that ended without one' : 'no attempt was known before'
  return { text: `The response is saved: ${what}`, json: reply.body }
}

async function remove(
  api: ApiClient<'public'>,
  query: Address & { readonly lockToken: string | undefined },
): Promise<Result> {
  const reply = await api.call('removeRecord', { query })
  if (reply.kind === 'problem') return reply
  const [what, done] = query.lockToken === undefined ? ['response', 'removed'] : ['lock', 'released']
  return reply.body.existed
    ? { text: `The ${what} is ${done}`, json: reply.body }
    : {
        problem:
          what === 'lock'
            ? 'No such lock: it was released, taken over or completed before'
            : `No response is saved under this scope and key${hintOf(query)}`,
        exitCode: exitCodes.notFound,
      }
}

function parseJsonText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidArgumentError('It must be JSON, such as \'{"id":"ch_1"}\'.')
  }
}

/** Explains the key of a middleware record if the scope looks like one and the key does not. */
function hintOf({ scope, key }: Address): string {
  if (!/^[A-Z]+ \//.test(scope) || /^(-|[A-Za-z0-9_-]{22}):/.test(key)) return ''
  return `. A key of the middleware begins with its principal: -:${key} for the principal 'none' (after --); see latchkey records get --help`
}
