import { type ApiClient, memberText } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'

/** Adds `latchkey records get|release`, about one scope and key. */
export function addRecordsCommand(program: Program, cli: Cli): void {
  const records = program.command('records').description('shows and releases idempotency records')
  records
    .command('get')
    .description('shows the saved response of a scope and a key')
    .argument('<scope>', 'namespace of the key')
    .argument('<key>', 'idempotency key')
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((scope, key, options) =>
        withApi(cli, 'public', options, (api) => get(cli, api, { scope, key })),
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
      problem: 'No response is saved under this scope and key, which may be locked',
      exitCode: exitCodes.notFound,
    }
  const { status, headers } = reply.body.record
  const record = memberText(reply.text, 'record')
  const head = tables.details([['status', status], ...Object.entries(headers)])
  // As received, since parsing could change its numbers.
  return { text: `${head}\n\n${memberText(record, 'body')}`, jsonText: record }
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
            : 'No response is saved under this scope and key',
        exitCode: exitCodes.notFound,
      }
}
