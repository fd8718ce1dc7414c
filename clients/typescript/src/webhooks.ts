import { Webhook } from 'standardwebhooks'
import { decodeText, type ReadBytes, readUpTo } from './bytes.ts'
import { commitOnce } from './commit-once.ts'
import type { Database } from './database.ts'
import { type EventFields, isEvent, type LatchkeyEvent } from './event.ts'
import { createRefusalLog, InvalidDelivery, refusalOf } from './invalid-delivery.ts'
import type { Latchkey } from './latchkey.ts'
import { valueCodec } from './options.ts'
import { nothingHappened } from './outcome.ts'

export type { EventFields, EventOf, EventType, LatchkeyEvent, Provider, UnlistedEvent } from './event.ts'
export { InvalidDelivery, type InvalidDeliveryReason } from './invalid-delivery.ts'

/** Default maximum bytes of a delivery: a payload of up to 25 MiB and the other fields of the event. */
const bodyBytesDefault = 26 * 1024 * 1024
/** Default seconds in which a duplicate is recognized: longer than the schedule of redeliveries. */
const ttlSecondsDefault = 7 * 86_400
const nameCharsMax = 100
const busyRetryMs = 1000
/** Maximum milliseconds to acquire, and to save. In total less than the time-out of a callback, which is 15 s by default. */
const acquireMs = 3000
const saveMs = 3000

/** Options of every receiver. */
export interface ReceiverOptions {
  /** The tenant's signing secrets, `whsec_…`. A delivery that any of them signed is accepted. */
  readonly secrets: readonly string[]
  /** Distinguishes receivers of the same events: each receiver handles an event once. Default `events`. */
  readonly name?: string
  /** Maximum bytes of a delivery. Default 26 MiB. */
  readonly bodyBytesMax?: number
  /** Seconds in which a duplicate of an event is recognized. Default 7 days. */
  readonly ttlSeconds?: number
  /** Gets exceptions of the handler and of the deduplication. Default: `console.error`. */
  onError?(error: unknown, event: EventFields): void
  /** Gets the reason for each refusal with 400, such as a wrong secret. Default: `console.warn`, at most once in 10 s. */
  onInvalid?(error: InvalidDelivery): void
}

/** Deduplication by records of the service: the handler runs once per event, unless its process ends before it is finished. */
export interface LatchkeyDeduplication {
  readonly latchkey: Latchkey
}

/** Deduplication by the table of `latchkey-outcomes.sql`: the changes of the handler in its transaction are committed exactly once. */
export interface TransactionDeduplication<Tx> {
  readonly transaction: Database<Tx>
}

/** Passed to a handler with the event. */
export interface ReceiverContext {
  /** Aborts when the lock of the event is lost. */
  readonly signal: AbortSignal
  /** True if an earlier delivery of the event ended without a result, so its effect may have happened. */
  readonly takenOver: boolean
  /** Rejects the event with 410: it fails without another delivery, and Latchkey suspends the callback. Throws, which rolls a transaction back. */
  gone(): never
  /** Rejects the event with `webhook-delivery: disable`: it fails without another delivery, and Latchkey suspends the callback. Throws. */
  disable(): never
  /** Rejects the event with `webhook-delivery: abort-message`: it fails without another delivery. Throws. */
  abort(): never
}

/** Context of a handler with a transaction. */
export interface TransactionContext<Tx> extends ReceiverContext {
  readonly tx: Tx
}

/** Delivery, as an adapter passes it to the receiver. */
export interface Delivery {
  header(name: string): string | null | undefined
  readBody(bytesMax: number): Promise<ReadBytes>
}

/** Response of a receiver. Never has a body. */
export interface DeliveryAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/** Receives deliveries of Latchkey. A handler of the Fetch API; `expressReceiver` and `fastifyReceiver` adapt it. */
export interface Receiver {
  (request: Request): Promise<Response>
  deliver(delivery: Delivery): Promise<DeliveryAnswer>
}

type Handler<Event, Context> = (event: Event, context: Context) => unknown

/**
 * Creates a receiver: verifies the signature, deduplicates events by id, and calls the handler in the transaction. To add types that
 * your senders of `generic` choose, annotate the event of the handler.
 * @throws TypeError for malformed secrets
 */
export function receiver<Tx, Event extends EventFields = LatchkeyEvent>(
  options: ReceiverOptions & TransactionDeduplication<Tx>,
  handler: Handler<Event, TransactionContext<Tx>>,
): Receiver
/** Creates a receiver whose handler has no transaction. Without `latchkey`, every delivery reaches the handler. */
export function receiver<Event extends EventFields = LatchkeyEvent>(
  options: ReceiverOptions & Partial<LatchkeyDeduplication>,
  handler: Handler<Event, ReceiverContext>,
): Receiver
/** Creates a receiver of either kind. */
export function receiver(options: AnyOptions, handler: AnyHandler): Receiver {
  const deliver = createDeliver(options, handler)
  const receive = async (request: Request) => {
    const { status, headers } = await deliver({
      header: (name) => request.headers.get(name),
      readBody: (bytesMax) => readUpTo(request.body, bytesMax),
    })
    return new Response(null, { status, headers })
  }
  return Object.assign(receive, { deliver })
}

type AnyOptions = ReceiverOptions & Partial<LatchkeyDeduplication & TransactionDeduplication<unknown>>
type AnyHandler = (event: never, context: TransactionContext<never>) => unknown

/** Thrown by `gone`, `disable` and `abort`. */
class Rejection extends Error {
  readonly answer: DeliveryAnswer

  constructor(answer: DeliveryAnswer) {
    super(`Latchkey: the handler rejected the event with status ${answer.status}`)
    this.answer = answer
  }
}

const rejections = {
  gone: { status: 410, headers: {} },
  disable: { status: 422, headers: { 'webhook-delivery': 'disable' } },
  abort: { status: 422, headers: { 'webhook-delivery': 'abort-message' } },
} as const

function createDeliver(options: AnyOptions, handler: AnyHandler): Receiver['deliver'] {
  const { secrets, name = 'events', bodyBytesMax = bodyBytesDefault } = options
  const { onInvalid = createRefusalLog() } = options
  const webhooks = webhooksOf(secrets)
  if (name.length === 0 || name.length > nameCharsMax)
    throw new TypeError(`Latchkey: the name of a receiver has 1 to ${nameCharsMax} characters`)
  return async ({ header, readBody }) => {
    const body = await readBody(bodyBytesMax)
    if (body.kind === 'beyond') return answerOf(413)
    const event = parseDelivery(webhooks, header, body.bytes)
    if (event instanceof InvalidDelivery) {
      onInvalid(event)
      return answerOf(400)
    }
    return handleOnce({ options, handler, scope: `webhook ${name}` }, event)
  }
}

/** @throws TypeError for a missing or malformed secret, without any part of it */
function webhooksOf(secrets: readonly (string | undefined)[]): readonly Webhook[] {
  if (!Array.isArray(secrets) || secrets.length === 0)
    throw new TypeError('Latchkey: `secrets` must be a list with the signing secret of the tenant')
  return secrets.map((secret: unknown, index) => {
    if (secret === undefined || secret === null || secret === '')
      throw new TypeError(
        `Latchkey: \`secrets[${index}]\` is missing (${secret === '' ? 'empty' : secret}): pass the signing secret of the tenant, such as process.env.LATCHKEY_SIGNING_SECRET`,
      )
    try {
      return new Webhook(secret as string)
    } catch {
      // Replaces the exception, which can contain a part of the secret.
      throw new TypeError(
        `Latchkey: \`secrets[${index}]\` is malformed: a signing secret is \`whsec_\` and base64, as the Secret of the tenant has it`,
      )
    }
  })
}

/** Returns the event of a signed delivery, or the reason for refusing it. */
function parseDelivery(
  webhooks: readonly Webhook[],
  header: Delivery['header'],
  body: Uint8Array,
): EventFields | InvalidDelivery {
  const text = decodeText(body)
  if (text === undefined) return new InvalidDelivery('body')
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature']
  const headers = Object.fromEntries(names.map((name) => [name, header(name) ?? '']))
  for (const webhook of webhooks) {
    try {
      const event = webhook.verify(text, headers)
      return isEvent(event) ? event : new InvalidDelivery('body')
    } catch (error) {
      // The body is parsed only after its signature is verified, so a SyntaxError means that a signed body is not JSON.
      if (error instanceof SyntaxError) return new InvalidDelivery('body')
      // Otherwise tries the next secret.
    }
  }
  const [id = '', timestamp = '', signature = ''] = Object.values(headers)
  return refusalOf({ id, timestamp, signature }, Date.now())
}

interface Handling {
  readonly options: AnyOptions
  readonly handler: AnyHandler
  readonly scope: string
}

async function handleOnce(handling: Handling, event: EventFields): Promise<DeliveryAnswer> {
  const { onError = logError } = handling.options
  let failure: { readonly error: unknown } | undefined
  /** Calls the handler. Its exception is kept apart from exceptions of the deduplication. */
  const run = async (more: Pick<TransactionContext<unknown>, 'signal' | 'takenOver' | 'tx'>) => {
    let rejection: Rejection | undefined
    const reject = (by: keyof typeof rejections): never => {
      rejection = new Rejection(rejections[by])
      throw rejection
    }
    const ways = {
      gone: () => reject('gone'),
      disable: () => reject('disable'),
      abort: () => reject('abort'),
    }
    try {
      await handling.handler(event as never, { ...more, tx: more.tx as never, ...ways })
      // Rejects the event even if the handler caught the exception.
      if (rejection) throw rejection
    } catch (error) {
      failure = { error }
      throw error instanceof Rejection ? nothingHappened(error) : error
    }
    return null
  }
  try {
    return await deduplicate(handling, event.id, run)
  } catch (error) {
    if (failure?.error instanceof Rejection) return failure.error.answer
    onError(failure ? failure.error : error, event)
    return failure ? answerOf(500) : answerOf(503, busyRetryMs)
  }
}

type Run = (more: Pick<TransactionContext<unknown>, 'signal' | 'takenOver' | 'tx'>) => Promise<null>

async function deduplicate({ options, scope }: Handling, key: string, run: Run): Promise<DeliveryAnswer> {
  const { latchkey, transaction, ttlSeconds = ttlSecondsDefault } = options
  const free = { signal: new AbortController().signal, takenOver: false, tx: undefined }
  if (transaction) {
    const { kind } = await commitOnce(transaction, { scope, key, ttlSeconds }, valueCodec, (tx) =>
      run({ ...free, tx }),
    )
    if (kind === 'busy') return answerOf(409, busyRetryMs)
    return kind === 'unknown_commit' ? answerOf(503, busyRetryMs) : answerOf(204)
  }
  if (!latchkey) {
    await run(free)
    return answerOf(204)
  }
  let hasRun = false
  const bounds = { ttlSeconds, waitMs: 0, acquireMs, saveMs, onTakenOver: 'run' as const }
  const outcome = await latchkey.once({ ...bounds, scope, key }, async ({ signal, takenOver }) => {
    await run({ signal, takenOver, tx: undefined })
    hasRun = true
    return null
  })
  if (hasRun || outcome.kind === 'replayed') return answerOf(204)
  if (outcome.kind === 'unavailable') return answerOf(503, outcome.retryAfterMs)
  return answerOf(409, outcome.kind === 'busy' ? outcome.retryAfterMs : busyRetryMs)
}

function answerOf(status: number, retryAfterMs?: number): DeliveryAnswer {
  if (retryAfterMs === undefined) return { status, headers: {} }
  return { status, headers: { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) } }
}

function logError(error: unknown, { id }: EventFields): void {
  // oxlint-disable-next-line no-console -- an exception that nothing reports would be lost
  console.error(`Latchkey: the event ${id} was not handled`, error)
}
