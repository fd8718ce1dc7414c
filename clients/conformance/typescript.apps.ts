// Serves the apps of the cases with the TypeScript library. Speaks JSON lines, as the driver does. Runs on Bun, and without the Fetch API on Node.
import { createInterface } from 'node:readline'
import pgDriver from 'pg'
import { Latchkey, nothingHappened } from '../typescript/src/index.ts'
import { pg } from '../typescript/src/postgres.ts'
import {
  type EventFields,
  type Receiver,
  type ReceiverContext,
  receiver,
} from '../typescript/src/webhooks.ts'
import type { Deduplication, GuardOptions, HandlerScript, ReceiverOptions } from './app-cases.ts'
import { type App, type HandlerCall, type Reply, servers } from './typescript.frameworks.ts'

interface Request {
  readonly call: number
  readonly do: 'serve' | 'runs' | 'finish' | 'close'
  readonly client: string
  readonly options: unknown
}

interface ServeOptions {
  readonly framework: keyof typeof servers
  readonly url: string
  readonly apiKey: string
  readonly options: GuardOptions & ReceiverOptions
  readonly by?: Deduplication
  readonly databaseUrl?: string
  readonly secrets?: readonly string[]
}

const apps = new Map<string, CaseApp>()

/** App of one case. */
class CaseApp {
  #app: App | undefined
  #pool: pgDriver.Pool | undefined
  #runs = 0
  #handled = 0
  #finish = () => {}
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve
  })

  async serve(options: ServeOptions): Promise<object> {
    const { framework, url, apiKey, options: own, by } = options
    const { principal, savedBelow, ...guard } = own
    const latchkey = new Latchkey({ url, apiKey })
    this.#app = await servers[framework]({
      latchkey,
      guard: by ? {} : { ...guard, ...(savedBelow && { save: (status) => status < savedBelow }) },
      isAnonymous: principal === 'none',
      handle: (call) => this.#reply(call),
      ...(by && { receive: this.#receiver(by, latchkey, options) }),
    })
    return { url: this.#app.url }
  }

  runs = () => ({ runs: this.#runs, handled: this.#handled })

  finish = () => {
    this.#finish()
    return {}
  }

  async close(): Promise<object> {
    await this.#app?.close()
    await this.#pool?.end()
    return {}
  }

  async #reply({ body: received, script: encoded, operation }: HandlerCall): Promise<Reply> {
    this.#runs += 1
    const run = this.#runs
    const script = JSON.parse(decodeURIComponent(encoded)) as HandlerScript
    const fill = (template: string) =>
      template
        .replaceAll('{run}', String(run))
        .replaceAll('{takenOver}', String(operation?.takenOver ?? false))
        .replaceAll('{body}', () => received)
    await this.#perform(script)
    if (script.nothingHappened) operation?.nothingHappened()
    const { status = 200, headers = {}, base64, text: template = '', times = 1, writes = 1 } = script
    const part = base64 === undefined ? Buffer.from(fill(template)) : Buffer.from(base64, 'base64')
    const body = Buffer.concat(Array.from({ length: times }, () => part))
    return { status, headers, writes: body.length === 0 ? [] : Array.from({ length: writes }, () => body) }
  }

  async #perform({ hold, throws }: HandlerScript): Promise<void> {
    if (hold) await this.#finished
    if (throws === 'error') throw new Error('the handler failed')
    if (throws === 'nothingHappened') throw nothingHappened(new Error('the handler failed'))
  }

  #receiver(
    by: Deduplication,
    latchkey: Latchkey,
    { secrets = [], options, databaseUrl = '' }: ServeOptions,
  ): Receiver {
    const base = { ...options, secrets, onError: () => undefined }
    if (by === 'transaction') {
      this.#pool = new pgDriver.Pool({ connectionString: databaseUrl, max: 5 })
      return receiver<pgDriver.PoolClient, EventFields>(
        { ...base, transaction: pg<pgDriver.PoolClient>(this.#pool) },
        async (event, { tx, ...context }) => {
          await tx.query('INSERT INTO handled VALUES ($1)', [event.id])
          await this.#handle(event, context)
        },
      )
    }
    return receiver<EventFields>({ ...base, ...(by === 'records' && { latchkey }) }, (event, context) =>
      this.#handle(event, context),
    )
  }

  async #handle({ payload }: EventFields, context: ReceiverContext): Promise<void> {
    this.#runs += 1
    const { handler } = payload as { handler: HandlerScript }
    await this.#perform(handler)
    if (handler.rejects)
      try {
        context[handler.rejects]()
      } catch (error) {
        if (!handler.catches) throw error
        return
      }
    this.#handled += 1
  }
}

async function answer({ do: name, client, options }: Request): Promise<object> {
  const app = apps.get(client) ?? new CaseApp()
  apps.set(client, app)
  return name === 'serve' ? app.serve(options as ServeOptions) : app[name]()
}

// The process ends, and with it the apps, when its standard input ends.
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const request = JSON.parse(line) as Request
    void answer(request)
      .then((result) => ({ result }))
      .catch((error: unknown) => ({ failed: String(error) }))
      .then((reply) => process.stdout.write(`${JSON.stringify({ call: request.call, ...reply })}\n`))
  })
  .on('close', () => process.exit())
