import { randomBytes } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import type { SigningKey } from '#internal/delivery/index.ts'
import type { EventContent } from '#internal/events/index.ts'
import { type ApiClient, memberText } from './api-client.ts'
import type { Cli, Problem, Program, Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { readSigningKey } from './event-curl.ts'
import { followEvents, type StreamedEvent } from './event-stream.ts'
import { printable } from './tables.ts'
import { fromOption, isoTime, parseUrl, parseWhole } from './values.ts'

type Api = ApiClient<'public'>

const afterHelp = `
Each event is sent as a callback receives it, signed with the secret that is printed at the start, or with
the one of --secret-file or LATCHKEY_SIGNING_SECRET. The tenant's own callback gets it, too. The
place in the events is kept by the service under a name: events that come while the command does not run are
sent when it runs again, unless --skip is given. A call that fails is shown and not repeated; press r and
Return to send all failed ones again.

For a tenant without a callback, events that were sent count as processed, as if a consumer of its own had
acknowledged them. Its other subscriptions still get them.`

const forwardMsMax = 30_000
/** Maximum failed events that are kept to be sent again. */
const failedMax = 100

/** Adds `latchkey listen`, which forwards events to a program on this machine. */
export function addListenCommand(program: Program, cli: Cli): void {
  program
    .command('listen')
    .description('forwards events to a program on this machine as they come')
    .addHelpText('after', afterHelp)
    .requiredOption(
      '--forward-to <url>',
      'URL that gets the events, such as localhost:3000/webhooks',
      parseTarget,
    )
    .option(...typesOption)
    .option('--secret-file <path>', 'file with the signing secret')
    .option(...nameOption)
    .option(...fromOption(fromText, cli.clock.now()))
    .option('--skip', 'skips the events that came while the command did not run')
    .option(...maxOption)
    .option(...profileOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, async (api, config) => {
          const key = await keyOf(options.secretFile, config.signingSecret)
          if ('problem' in key) return key
          const name = options.name ?? nameOf('listen')
          const cursor = {
            name,
            types: options.events,
            fromMs: options.from,
            isSkipped: options.skip === true,
          }
          const problem = await openCursor(api, cursor)
          if (problem) return problem
          if (key.secret !== undefined) cli.terminal.say(`Signing secret of this listener: ${key.secret}`)
          cli.terminal.say(`Forwarding events to ${options.forwardTo}, as ${name}. Ctrl-C ends it.`)
          const listener = new Listener(cli, { api, name, url: options.forwardTo, key: key.key })
          return listener.run(options.max)
        }),
      ),
    )
}

/** Adds `latchkey events tail`, which prints events as they come. */
export function addTailCommand(events: Program, cli: Cli): void {
  events
    .command('tail')
    .description('prints events as they come, which the audit log records')
    .option(...typesOption)
    .option(...nameOption)
    .option(...fromOption(fromText, cli.clock.now()))
    .option(...maxOption)
    .option(...profileOption)
    .option('--json', 'prints each event as a line of JSON, with its payload')
    .action(
      cli.action((options) =>
        withApi(cli, 'public', { profile: options.profile }, async (api) => {
          const name = options.name ?? nameOf('tail')
          const cursor = { name, types: options.events, fromMs: options.from, isSkipped: true }
          const problem = await openCursor(api, cursor)
          if (problem) return problem
          return follow(cli, api, { name, max: options.max }, async ({ text }) => {
            cli.terminal.say(options.json ? JSON.stringify(JSON.parse(text)) : lineOf(text))
          })
        }),
      ),
    )
}

/** Parses a URL, or a host with a port and a path, for which the scheme is http. */
function parseTarget(text: string): string {
  return parseUrl(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
}

const typesOption = [
  '--events <types...>',
  'normalized types, such as payment.succeeded or payment.*; default: all',
] as const
const nameOption = [
  '--name <name>',
  'name of the subscription that keeps the place; default: made of this user and host',
] as const
const fromText = 'begins with the events received since then'
const maxOption = ['--max <count>', 'ends after so many events', parseWhole(1, 1_000_000)] as const

/** Returns the name of the subscription of this user on this host. */
function nameOf(command: string): string {
  const owner = `${userInfo().username}-${hostname()}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  return `${command}-${owner}`.slice(0, 63).replace(/-+$/, '')
}

interface Cursor {
  readonly name: string
  readonly types: readonly string[] | undefined
  readonly fromMs: number | undefined
  readonly isSkipped: boolean
}

/** Creates the subscription or changes its filter, and moves it. Returns the problem if that fails. */
async function openCursor(
  api: Api,
  { name, types = [], fromMs, isSkipped }: Cursor,
): Promise<Problem | undefined> {
  const path = { subscriptionName: name }
  const from = isoTime(fromMs)
  const written = await api.call('writeSubscription', { path, body: { types: [...types], from } })
  if (written.kind === 'problem') return written
  if (from === undefined && !isSkipped) return undefined
  const moved = await api.call('seekSubscription', { path, body: { from } })
  return moved.kind === 'problem' ? moved : undefined
}

interface OwnKey {
  readonly key: SigningKey
  /** The secret, if this command made it. */
  readonly secret?: string
}

async function keyOf(path: string | undefined, given: string | undefined): Promise<OwnKey | Problem> {
  if (path !== undefined || given !== undefined) return readSigningKey(path, given)
  const secret = `whsec_${randomBytes(24).toString('base64')}`
  const { prepareSigningKey } = await import('#internal/delivery/index.ts')
  const key = prepareSigningKey(secret)
  return key ? { key, secret } : { problem: 'No signing secret could be made' }
}

/** Result of a command that has printed everything. */
const nothing: Result = { text: '', json: null }

/** Calls a function for each event and acknowledges it afterwards. */
async function follow(
  cli: Cli,
  api: Api,
  { name, max = Infinity }: { readonly name: string; readonly max?: number | undefined },
  handle: (event: StreamedEvent) => Promise<void>,
): Promise<Result> {
  const ended = new AbortController()
  let isLost = false
  const events = followEvents({
    ...{ api, subscription: name, signal: ended.signal },
    onState(problem) {
      if (problem && !isLost) cli.terminal.complain(`${problem.problem}. Trying again.`)
      if (!problem && isLost) cli.terminal.complain('Connected again.')
      isLost = problem !== undefined
    },
  })
  let count = 0
  for (;;) {
    const next = await events.next()
    if (next.done) return next.value ?? nothing
    await handle(next.value)
    const body = { ackToken: next.value.streamId }
    // If the acknowledgement is lost, the next one, or the id with which the stream continues, covers it.
    await api.call('acknowledgeEvents', { path: { subscriptionName: name }, body })
    count += 1
    if (count >= max) {
      ended.abort()
      await events.return(undefined)
      return nothing
    }
  }
}

interface ListenerOptions {
  readonly api: Api
  readonly name: string
  readonly url: string
  readonly key: SigningKey
}

/** Forwards events to a URL, and keeps those that failed. */
class Listener {
  readonly #cli: Cli
  readonly #options: ListenerOptions
  #failed: string[] = []

  constructor(cli: Cli, options: ListenerOptions) {
    this.#cli = cli
    this.#options = options
  }

  async run(max: number | undefined): Promise<Result> {
    const { api, name } = this.#options
    const stop = this.#cli.terminal.onLine?.((line) => {
      if (line.trim() === 'r') void this.#repeatFailed()
    })
    try {
      return await follow(this.#cli, api, { name, max }, ({ text }) => this.#forward(text))
    } finally {
      stop?.()
    }
  }

  async #repeatFailed(): Promise<void> {
    const failed = this.#failed
    this.#failed = []
    this.#cli.terminal.say(failed.length === 0 ? 'No event has failed.' : `Sending ${failed.length} again.`)
    for (const text of failed) await this.#forward(text)
  }

  async #forward(text: string): Promise<void> {
    const { url, key } = this.#options
    const { terminal, clock } = this.#cli
    const startedAtMs = clock.now()
    const outcome = await send(text, { url, key, nowMs: startedAtMs })
    const isOk = typeof outcome === 'number' && outcome >= 200 && outcome < 300
    if (!isOk) this.#failed = [...this.#failed, text].slice(-failedMax)
    terminal.say(`${lineOf(text)}  ${outcome}  ${clock.now() - startedAtMs} ms`)
  }
}

/** Calls the URL like a forwarder. Returns the status, or why there is none. */
async function send(
  text: string,
  { url, key, nowMs }: { readonly url: string; readonly key: SigningKey; readonly nowMs: number },
): Promise<number | string> {
  const content = contentOf(text)
  const { carriedHeaders, signedCall } = await import('#internal/delivery/index.ts')
  const call = signedCall({ url, allowedCIDRs: [], timeoutMs: forwardMsMax, keys: [key] }, content, {
    ...{ ...carriedHeaders(content.headers), nowMs },
  })
  try {
    const response = await fetch(url, {
      ...{ method: 'POST', headers: call.headers, body: call.body, redirect: 'manual' },
      signal: AbortSignal.timeout(forwardMsMax),
    })
    await response.body?.cancel()
    return response.status
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError')
      return `no answer in ${forwardMsMax / 1000} s`
    return error instanceof Error && 'code' in error ? String(error.code) : 'failed'
  }
}

interface ShownEvent {
  readonly id: string
  readonly type: string
  readonly provider: string
  readonly providerRawType: string
  readonly tenantId: string
  readonly occurredAt: string
  readonly receivedAt: string
}

/** Returns an event of a stream for `signedCall`, which writes it as it was received. */
function contentOf(text: string): EventContent {
  const event = JSON.parse(text) as ShownEvent
  const { id, tenantId, provider, providerRawType: rawType, type } = event
  return {
    ...{ id, tenantId, provider, rawType, type },
    ...{ occurredAtMs: Date.parse(event.occurredAt), receivedAtMs: Date.parse(event.receivedAt) },
    ...{ payload: memberText(text, 'payload'), headers: memberText(text, 'headers') },
  } as EventContent
}

function lineOf(text: string): string {
  const { id, type, provider, receivedAt } = JSON.parse(text) as ShownEvent
  return [receivedAt, id, provider, type].map(printable).join('  ')
}
