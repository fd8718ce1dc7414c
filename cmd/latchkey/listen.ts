import { hostname, userInfo } from 'node:os'
import { memberText } from '#internal/base/index.ts'
import type { SigningKey } from '#internal/delivery/index.ts'
import type { ApiClient } from './api-client.ts'
import type { Cli, Problem, Program, Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { followEvents, type StreamedEvent } from './event-stream.ts'
import { type EventFields, localCall } from './local-call.ts'
import { chooseSigningKey, secretOption } from './signing-key.ts'
import { printable } from './tables.ts'
import { fromOption, isoTime, parseUrl, parseWhole } from './values.ts'

type Api = ApiClient<'public'>

/** Days without use after which a listener's subscription may be deleted, so that the tenant does not run out of subscriptions. */
const listenerIdleDays = 14
const tailIdleDays = 1

const afterHelp = `
Each event is sent as a callback receives it, signed with the secret that is printed at the start, which
is the same each time, or with the one of --secret-file or LATCHKEY_SIGNING_SECRET. The tenant's own
callback gets it, too, and its subscriptions do. The place in the events is kept by the service under a name: events that come
while the command does not run are sent when it runs again, unless --skip is given. A second listener at
the same time needs a --name of its own, and gets a copy of each event. A call that fails is shown and
not repeated; press r to send all failed ones again, while the command runs. Replays go to the callback of
the tenant, not to listeners. A name that is not used for ${listenerIdleDays} days can lose its place.`

const forwardMsMax = 30_000
/** Maximum failed events that are kept to be sent again. */
const failedMax = 100

export function addListenCommand(program: Program, cli: Cli): void {
  program
    .command('listen')
    .description('forwards events to a program on this machine as they come')
    .addHelpText('after', afterHelp)
    .requiredOption(
      '--forward-to <url>',
      'URL that gets the events, such as localhost:3000/webhooks; a number is a port of 127.0.0.1',
      parseTarget,
    )
    .option(...typesOption)
    .option(...secretOption)
    .option('--skip-verify', 'does not verify the certificate of the URL, such as a self-signed one')
    .option(...nameOption)
    .option(...fromOption(fromText, cli.clock.now()))
    .option('--skip', 'skips the events that came while the command did not run')
    .option(...maxOption)
    .option(...profileOption)
    .option('--json', 'prints the listener and each call as a line of JSON')
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, async (api, { signingSecret }) => {
          const chosen = await chooseSigningKey(api, { path: options.secretFile, given: signingSecret })
          if ('problem' in chosen) return chosen
          const { name = nameOf('listen', cli), forwardTo: url, json = false, skip = false } = options
          const cursor = { name, types: options.events, fromMs: options.from, isSkipped: skip }
          const problem = await openCursor(api, { ...cursor, idleDays: listenerIdleDays })
          if (problem) return problem
          const { key, listenerSecret } = chosen
          const target = { url, key, isUnverified: options.skipVerify === true }
          const listener = new Listener(cli, { api, name, target, isJson: json })
          return listener.run({ max: options.max, listenerSecret })
        }),
      ),
    )
}

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
        withApi(cli, 'public', options, async (api) => {
          const { name = nameOf('tail', cli) } = options
          const cursor = { name, types: options.events, fromMs: options.from, isSkipped: true }
          const problem = await openCursor(api, { ...cursor, idleDays: tailIdleDays })
          if (problem) return problem
          return follow(cli, api, { name, max: options.max }, async ({ text }) => {
            // Replaces line feeds, which are only white space between JSON members. Parsing could change numbers.
            cli.terminal.say(options.json ? text.replaceAll(/[\r\n]+/g, ' ') : lineOf(text))
          })
        }),
      ),
    )
}

/** Accepts a URL, a host with a port and a path (http), or a port of this machine with a path. */
function parseTarget(text: string): string {
  // Reads a number as a port, because the URL http://3100 is the address 0.0.12.28.
  if (/^\d+(\/|$)/.test(text)) return parseUrl(`http://127.0.0.1:${text}`)
  return parseUrl(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
}

const typesOption = [
  '--events <types...>',
  'normalized types, such as payment.succeeded or payment.*; default: all',
] as const
const nameOption = [
  '--name <name>',
  'name of the subscription that keeps the position; default: derived from the user and the host',
] as const
const fromText = 'begins with events received at this time or later'
const maxOption = ['--max <count>', 'stops after this number of events', parseWhole(1, 1_000_000)] as const

/** Returns the name of a subscription: one per command, user and host. */
function nameOf(command: string, { terminal: { env } }: Cli): string {
  // Reads the variables here, because os.userInfo() of Bun 1.4.5 reads only USER, and returns "unknown" if USER is not set.
  const user = env['USER'] || env['LOGNAME'] || userInfo().username
  const owner = `${user}-${hostname()}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  return `${command}-${owner}`.slice(0, 63).replace(/-+$/, '')
}

async function openCursor(
  api: Api,
  {
    name,
    types = [],
    fromMs,
    isSkipped,
    idleDays: deleteAfterIdleDays,
  }: {
    readonly name: string
    readonly types: readonly string[] | undefined
    readonly fromMs: number | undefined
    readonly isSkipped: boolean
    readonly idleDays: number
  },
): Promise<Problem | undefined> {
  const path = { subscriptionName: name }
  const from = isoTime(fromMs)
  const body = { types: [...types], from, deleteAfterIdleDays }
  const written = await api.call('writeSubscription', { path, body })
  if (written.kind === 'problem')
    return written.code === 'conflict'
      ? { ...written, problem: `${written.problem}. See latchkey subscriptions list` }
      : written
  if (from === undefined && !isSkipped) return undefined
  const moved = await api.call('seekSubscription', { path, body: { from } })
  return moved.kind === 'problem' ? moved : undefined
}

const nothing: Result = { text: '', jsonText: '' }

async function follow(
  cli: Cli,
  api: Api,
  {
    name,
    max = Infinity,
    onFirstOpen,
  }: {
    readonly name: string
    readonly max?: number | undefined
    /** Called once, when the first open stream shows that the key has the scopes. */
    onFirstOpen?(): void
  },
  handle: (event: StreamedEvent) => Promise<void>,
): Promise<Result> {
  const ended = new AbortController()
  let isLost = false
  let wasOpen = false
  const events = followEvents({
    api,
    subscription: name,
    signal: ended.signal,
    onState(problem) {
      if (problem && !isLost) cli.terminal.complain(`${problem.problem}. Trying again.`)
      if (problem?.code === 'conflict' && !isLost)
        cli.terminal.complain(`If another command uses the name ${name}, give one of them a --name.`)
      if (!problem && isLost) cli.terminal.complain('Connected again.')
      isLost = problem !== undefined
      if (isLost || wasOpen) return
      wasOpen = true
      onFirstOpen?.()
    },
  })
  let count = 0
  for (;;) {
    const next = await events.next()
    if (next.done) return next.value ?? nothing
    await handle(next.value)
    const body = { ackToken: next.value.streamId }
    // Ignores a lost acknowledgement: the next one, or the id with which the stream continues, covers the same events.
    await api.call('acknowledgeEvents', { path: { subscriptionName: name }, body })
    count += 1
    if (count >= max) {
      ended.abort()
      await events.return(undefined)
      return nothing
    }
  }
}

interface Target {
  readonly url: string
  readonly key: SigningKey
  /** Accepts any certificate. */
  readonly isUnverified: boolean
}

interface ListenerOptions {
  readonly api: Api
  readonly name: string
  readonly target: Target
  readonly isJson: boolean
}

/** Forwards events to a URL, and keeps those that failed. */
class Listener {
  readonly #cli: Cli
  readonly #options: ListenerOptions
  #failed: string[] = []
  #repeating: Promise<void> | undefined

  constructor(cli: Cli, options: ListenerOptions) {
    this.#cli = cli
    this.#options = options
  }

  #introduce(signingSecret: string | undefined): void {
    const { terminal } = this.#cli
    const { name, target, isJson } = this.#options
    if (isJson) {
      terminal.say(JSON.stringify({ listener: name, forwardTo: target.url, signingSecret }))
      return
    }
    if (signingSecret !== undefined) terminal.say(`Signing secret of this listener: ${signingSecret}`)
    const keys = terminal.onKey === undefined ? '' : ' Press r to send failed events again.'
    terminal.say(`Forwarding events to ${target.url}, as ${name}.${keys} Ctrl-C ends it.`)
  }

  async run({
    max,
    listenerSecret,
  }: {
    /** Number of events after which the command ends. */
    readonly max: number | undefined
    /** Secret of listeners to print; undefined if the receiver already knows the signing secret. */
    readonly listenerSecret: string | undefined
  }): Promise<Result> {
    const { api, name } = this.#options
    const stop = this.#cli.terminal.onKey?.((key) => {
      if (key !== 'r') return
      this.#repeating ??= this.#repeatFailed().finally(() => (this.#repeating = undefined))
    })
    try {
      const cursor = { name, max, onFirstOpen: () => this.#introduce(listenerSecret) }
      return await follow(this.#cli, api, cursor, ({ text }) => this.#forward(text))
    } finally {
      stop?.()
      await this.#repeating
      this.#reportFailed()
    }
  }

  /** Prints that the next listener does not send failed events again. */
  #reportFailed(): void {
    const [first] = this.#failed
    if (first === undefined || this.#options.isJson) return
    const { id } = fieldsOf(first)
    const count = this.#failed.length
    this.#cli.terminal.complain(
      `${count === 1 ? 'One event that failed is' : `${count} events that failed are`} not sent again: start with --from, or use latchkey events get ${id} --curl.`,
    )
  }

  async #repeatFailed(): Promise<void> {
    const failed = this.#failed
    this.#failed = []
    const { terminal } = this.#cli
    terminal.complain(failed.length === 0 ? 'No event has failed.' : `Sending ${failed.length} again.`)
    for (const text of failed) await this.#forward(text)
  }

  async #forward(text: string): Promise<void> {
    const { target, isJson } = this.#options
    const { terminal, clock, tables } = this.#cli
    const startedAtMs = clock.now()
    const outcome = await send(text, target, startedAtMs)
    const durationMs = clock.now() - startedAtMs
    const { status, problem } = outcome
    const isOk = status !== null && status >= 200 && status < 300
    if (!isOk) this.#failed = [...this.#failed, text].slice(-failedMax)
    if (isJson) {
      const { id, type, provider, receivedAt } = fieldsOf(text)
      terminal.say(JSON.stringify({ id, type, provider, receivedAt, ...outcome, durationMs }))
    } else {
      const shown = tables.paint(isOk ? 'green' : 'red', String(problem ?? status))
      terminal.say(`${lineOf(text)}  ${shown}  ${durationMs} ms`)
    }
  }
}

/** Calls the URL like a forwarder. Never rejects. */
async function send(
  text: string,
  { url, key, isUnverified }: Target,
  nowMs: number,
): Promise<{
  /** Null if there was no response. */
  readonly status: number | null
  readonly problem: string | null
}> {
  const [payload, headers] = [memberText(text, 'payload'), memberText(text, 'headers')]
  const call = await localCall({ event: fieldsOf(text), payload, headers }, { url, key, nowMs })
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: call.headers,
      body: call.body,
      redirect: 'manual',
      signal: AbortSignal.timeout(forwardMsMax),
      ...(isUnverified && { tls: { rejectUnauthorized: false } }),
    })
    await response.body?.cancel()
    return { status: response.status, problem: null }
  } catch (error) {
    return { status: null, problem: problemOf(error) }
  }
}

function problemOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `no answer in ${forwardMsMax / 1000} s`
  return error instanceof Error && 'code' in error ? String(error.code) : 'failed'
}

function fieldsOf(text: string): EventFields {
  return JSON.parse(text) as EventFields
}

function lineOf(text: string): string {
  const { id, type, provider, receivedAt } = fieldsOf(text)
  return [receivedAt, id, provider, type].map(printable).join('  ')
}
