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
import type { Deduplication, Framework, HandlerScript } from './app-cases.ts'
import { type App, frameworks, type HandlerCall, type Reply } from './typescript.frameworks.ts'

interface Request {
  readonly call: number
  readonly do: 'serve' | 'runs' | 'finish' | 'close'
  readonly client: string
  readonly options: unknown
}

interface ServeOptions {
  readonly framework: Exclude<Framework, 'Starlette' | 'FastAPI' | 'ASGI'>
  readonly url: string
  readonly apiKey: string
  readonly options: { readonly principal?: 'none'; readonly savedBelow?: number; readonly name?: string }
  readonly by?: Deduplication
  readonly databaseUrl?: string
  readonly secrets?: readonly string[]
}

const apps = new Map<string, CaseApp>()
const pools = new Map<string, pgDriver.Pool>()

/** App of one case. */
class CaseApp {
  #app: App | undefined
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
    this.#app = await frameworks[framework]({
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
    return {}
  }

  async #reply({ body, script: text, operation }: HandlerCall): Promise<Reply> {
    this.#runs += 1
    const run = this.#runs
    const script = JSON.parse(decodeURIComponent(atob(text))) as HandlerScript
    const fill = (template: string) =>
      template
        .replace('{run}', String(run))
        .replace('{body}', () => body)
        .replace('{takenOver}', String(operation?.takenOver))
    await this.#perform(script)
    if (script.nothingHappened) operation?.nothingHappened()
    const { status = 200, headers = {}, times = 1, parts = 1 } = script
    const part =
      script.base64 === undefined
        ? Buffer.from(fill(script.text ?? ''))
        : Buffer.from(script.base64, 'base64')
    const whole = Buffer.concat(Array.from({ length: times }, () => part))
    return { status, headers, parts: whole.length === 0 ? [] : Array.from({ length: parts }, () => whole) }
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
    if (by === 'transaction')
      return receiver<pgDriver.PoolClient, EventFields>(
        { ...base, transaction: pg<pgDriver.PoolClient>(poolOf(databaseUrl)) },
        async (event, { tx, ...context }) => {
          await tx.query('INSERT INTO handled VALUES ($1)', [event.id])
          await this.#handle(event, context)
        },
      )
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

function poolOf(url: string): pgDriver.Pool {
  const pool = pools.get(url) ?? new pgDriver.Pool({ connectionString: url, max: 20 })
  pools.set(url, pool)
  return pool
}

function answer({ do: name, client, options }: Request): object | Promise<object> {
  const app = apps.get(client) ?? new CaseApp()
  apps.set(client, app)
  return name === 'serve' ? app.serve(options as ServeOptions) : app[name]()
}

// The apps hold the process; its end closes them.
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const request = JSON.parse(line) as Request
    void Promise.resolve(answer(request))
      .catch((error: unknown) => ({ thrown: String(error) }))
      .then((result) => process.stdout.write(`${JSON.stringify({ call: request.call, result })}\n`))
  })
  .on('close', () => process.exit())
