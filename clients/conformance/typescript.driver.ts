// Driver of the TypeScript library: makes the calls that the runner sends as JSON lines. Runs on Node and Bun.
import { createInterface } from 'node:readline'
import {
  idempotent,
  Latchkey,
  LatchkeyOutcomeError,
  LatchkeyRequestError,
  nothingHappened,
  type OnceOptions,
  type Outcome,
  type Pending,
  type Recovery,
  unwrap,
  type WorkContext,
} from '../typescript/src/index.ts'

type Fields = Readonly<Record<string, unknown>>
interface Request extends Fields {
  readonly call: number
  readonly do: string
  readonly client: string
  readonly options: Fields
}
type Reply = {
  readonly returns?: unknown
  readonly returnsJson?: string
  readonly returnsNoJson?: boolean
  readonly throws?: string
  readonly nothingHappened?: string
}

const clients = new Map<string, { latchkey: Latchkey; debug: unknown[] }>()
const replies = new Map<number, (reply: unknown) => void>()
const controllers = new Map<number, AbortController>()
const now = Date.now
const send = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)

class WorkError extends Error {}

function ask(call: number, asks: 'work' | 'recovery', context: WorkContext): Promise<unknown> {
  const { fence, takenOver, attemptId } = context
  return new Promise((resolve) => {
    replies.set(call, resolve)
    send({ call, asks, context: { fence, takenOver, attemptId } })
  })
}

async function work(call: number, context: WorkContext): Promise<unknown> {
  context.signal.addEventListener('abort', () => send({ call, aborted: true }))
  const reply = (await ask(call, 'work', context)) as Reply
  if (reply.throws !== undefined) throw new WorkError(reply.throws)
  if (reply.nothingHappened !== undefined) throw nothingHappened(new WorkError(reply.nothingHappened))
  if (reply.returnsNoJson) return { number: 1n }
  return reply.returnsJson === undefined ? reply.returns : JSON.parse(reply.returnsJson)
}

async function recover(call: number, context: WorkContext): Promise<Recovery<unknown>> {
  const reply = (await ask(call, 'recovery', context)) as Recovery<unknown> | { throws: string }
  if (typeof reply === 'object' && 'throws' in reply) throw new WorkError(reply.throws)
  return reply
}

async function run(request: Request): Promise<Fields> {
  const { call, client, options } = request
  if (request.do === 'open') {
    const { clockAheadMs, ...own } = options as { clockAheadMs?: number; url: string; apiKey: string }
    if (clockAheadMs) Date.now = () => now() + clockAheadMs
    const debug: unknown[] = []
    clients.set(client, { latchkey: new Latchkey({ ...own, debug: (...event) => debug.push(event) }), debug })
    return {}
  }
  const opened = clients.get(client)
  if (!opened) throw new Error(`no client ${client}`)
  const { latchkey, debug } = opened
  const result = await resultOf(request, latchkey).catch(thrown)
  controllers.delete(call)
  return { ...result, debug }
}

async function resultOf(request: Request, latchkey: Latchkey): Promise<Fields> {
  const { call, options } = request
  const address = options as { scope: string; key: string }
  switch (request.do) {
    case 'once': {
      const controller = new AbortController()
      controllers.set(call, controller)
      const asked: OnceOptions<unknown> = {
        ...address,
        ...(request['signal'] === true && { signal: controller.signal }),
        ...(request['recover'] === true && { onTakenOver: (context) => recover(call, context) }),
      }
      const outcome = await latchkey.once(asked, (context) => work(call, context))
      if (request['unwrap'] === true) return { kind: 'value', value: unwrap(outcome) }
      return { ...outcome }
    }
    case 'complete': {
      const { pending, ...bounds } = options
      const outcome: Outcome<unknown> = await latchkey.complete(pending as Pending, bounds)
      return { ...outcome }
    }
    case 'fetchRecord':
      return { record: (await latchkey.fetchRecord(address)) ?? null }
    case 'removeRecord':
      return { existed: await latchkey.removeRecord(address) }
    case 'decorated': {
      const context = {
        signal: new AbortController().signal,
        fence: undefined,
        takenOver: false,
        attemptId: '',
      }
      const own = { scope: address.scope, key: (..._args: unknown[]) => address.key }
      const charge = idempotent(latchkey, own, (..._args: unknown[]) => work(call, context))
      return { kind: 'value', value: await charge(...(options['args'] as unknown[])) }
    }
    default:
      throw new Error(`unknown request ${request.do}`)
  }
}

function thrown(error: unknown): Fields {
  if (error instanceof WorkError) return { thrown: 'work', message: error.message }
  if (error instanceof LatchkeyRequestError)
    return { thrown: 'request', status: error.status, code: error.code }
  if (error instanceof LatchkeyOutcomeError) return { ...error.outcome, thrown: 'outcome' }
  if (error instanceof DOMException && error.name === 'AbortError') return { thrown: 'aborted' }
  return { thrown: 'other', message: String(error) }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line) as { call: number; reply?: unknown; abort?: true }
  if (message.abort) controllers.get(message.call)?.abort()
  else if ('do' in message)
    void run(message as unknown as Request).then(
      (result) => send({ call: message.call, result }),
      (error: unknown) => send({ call: message.call, failed: String(error) }),
    )
  else {
    replies.get(message.call)?.(message.reply)
    replies.delete(message.call)
  }
})
