import { createHmac } from 'node:crypto'
import Ajv from 'ajv/dist/2020'
import type * as internalApi from '#built/api-types/internal.ts'
import type * as publicApi from '#built/api-types/public.ts'
import { exitCodes, type Problem } from './cli.ts'
import { contracts } from './contract.ts' with { type: 'macro' }
import { printable } from './tables.ts'

/** Operations of each API, typed by its OpenAPI document. */
interface Operations {
  readonly public: publicApi.operations
  readonly internal: internalApi.operations
}

/** The public API takes an API key, the internal one a token. */
export type ApiName = keyof Operations

export type Schemas<Name extends ApiName> = (Name extends 'public'
  ? publicApi.components
  : internalApi.components)['schemas']

// Frozen, because Bun otherwise inserts the whole result of the macro at each use of the constant.
const api = Object.freeze(contracts())

function operationOf(name: ApiName, id: string) {
  const operation = api[name].operations[id]
  if (operation === undefined) throw new Error(`the ${name} API has no operation ${id}`)
  return operation
}

interface Operation {
  readonly parameters: { readonly path?: unknown; readonly query?: unknown }
  readonly requestBody?: unknown
  readonly responses: unknown
}

type Undefinable<T> = { readonly [Name in keyof T]: T[Name] | undefined }
type Part<Name extends string, Value> = [Exclude<Value, undefined>] extends [never]
  ? unknown
  : { readonly [Field in Name]: Undefinable<Exclude<Value, undefined>> }
type Json<Content> = Content extends { readonly content: { readonly 'application/json': infer Value } }
  ? Value
  : never
type BodyOf<Op extends Operation> = [Exclude<Op['requestBody'], undefined>] extends [never]
  ? never
  : Json<Exclude<Op['requestBody'], undefined>>

/** Body of a request. Undefined fields are not sent. */
export type RequestBody<Id extends keyof publicApi.operations> = Undefinable<BodyOf<publicApi.operations[Id]>>

type FieldsOf<Op> = Op extends Operation ? Exclude<Op['parameters']['query'], undefined> | BodyOf<Op> : never
type ValueOf<Fields, Field> = Fields extends unknown
  ? Field extends keyof Fields
    ? NonNullable<Fields[Field]>
    : never
  : never

/** Returns the values of a query parameter or a body field. @throws if the API has no set of values for it */
export function choicesOf<
  Name extends ApiName,
  Id extends string & keyof Operations[Name],
  Field extends string,
>(name: Name, id: Id, field: Field): readonly ValueOf<FieldsOf<Operations[Name][Id]>, Field>[] {
  const choices = operationOf(name, id).choices[field]
  if (choices === undefined) throw new Error(`${field} of ${id} has no set of values`)
  return choices as never
}
/** Query of a request. Undefined parameters are not sent. */
export type RequestQuery<Id extends keyof publicApi.operations> = Undefinable<
  NonNullable<publicApi.operations[Id]['parameters']['query']>
>

/** Parts of a request. Undefined members are not sent. */
type Input<Op extends Operation> = Part<'path', Op['parameters']['path']> &
  Part<'query', Op['parameters']['query']> &
  Part<'body', BodyOf<Op>> & { readonly idempotencyKey?: string }

type AnswerOf<Op extends Operation> = Json<Op['responses'][keyof Op['responses']]>

export type Reply<Answer> =
  | { readonly kind: 'ok'; readonly body: Answer; readonly text: string }
  | (Problem & { readonly kind: 'problem'; readonly code?: string | undefined })

export interface Connection {
  /** Base URL, without the path of the API. */
  readonly url: string
  /** API key or token. Never printed. */
  readonly credential: string
}

/** Maximum time of a call in milliseconds, including reading the whole answer. */
const callMsMax = 60_000
/** Maximum bytes of an answer, which fits the largest payload. */
const answerBytesMax = 32 * 1024 * 1024
const messageCharsMax = 1_000

export class ApiClient<Name extends ApiName> {
  readonly #name: Name
  readonly #connection: Connection
  // Does not validate the schemas, which are generated: that would take as long as the rest of the command.
  readonly #ajv = new Ajv({ strict: false, validateSchema: false, meta: false })

  constructor(name: Name, connection: Connection) {
    this.#name = name
    this.#connection = connection
    this.#ajv.addSchema({ $id: 'contract', components: { schemas: api[name].schemas } })
  }

  /** Calls once. Redirects are not followed, so that the credential is sent to no other address. Never rejects. */
  async call<Id extends string & keyof Operations[Name]>(
    id: Id,
    input: Operations[Name][Id] extends Operation ? Input<Operations[Name][Id]> : never,
  ): Promise<Reply<Operations[Name][Id] extends Operation ? AnswerOf<Operations[Name][Id]> : never>> {
    const { method, path, answer } = operationOf(this.#name, id)
    const { path: names, query, body, idempotencyKey } = input as Loose
    const filled = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) =>
      encodeURIComponent(names?.[name] ?? ''),
    )
    const url = `${this.#connection.url.replace(/\/+$/, '')}${filled}${queryText(query)}`
    try {
      const response = await fetch(url, {
        method,
        headers: {
          Authorization: `Bearer ${this.#connection.credential}`,
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }),
        },
        redirect: 'manual',
        signal: AbortSignal.timeout(callMsMax),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await readText(response)
      if (!response.ok) return refusal(response, text, url)
      return this.#parse(answer, text, `${method} ${filled}`)
    } catch (error) {
      return unreachable(new URL(url).origin, error)
    }
  }

  /** Redirects are not followed. Never rejects. @param lastEventId id of the last handled event; empty without one */
  async openStream(
    subscription: string,
    lastEventId: string,
    signal: AbortSignal,
  ): Promise<
    { readonly kind: 'ok'; readonly body: ReadableStream<Uint8Array> } | Extract<Reply<never>, Problem>
  > {
    const base = this.#connection.url.replace(/\/+$/, '')
    const url = `${base}/v1/subscriptions/${encodeURIComponent(subscription)}/stream`
    try {
      const response = await fetch(url, {
        headers: {
          Authorization: `Bearer ${this.#connection.credential}`,
          ...(lastEventId !== '' && { 'Last-Event-ID': lastEventId }),
        },
        redirect: 'manual',
        signal,
      })
      if (response.ok && response.body) return { kind: 'ok', body: response.body }
      return refusal(response, await readText(response), url)
    } catch (error) {
      return unreachable(new URL(url).origin, error)
    }
  }

  /** Derives 32 bytes from the credential and a purpose. Equal inputs give equal bytes, which do not reveal the credential. */
  deriveSecret(purpose: string): Buffer {
    return createHmac('sha256', this.#connection.credential).update(purpose).digest()
  }

  #parse<Answer>(schema: object, text: string | undefined, call: string): Reply<Answer> {
    if (text === undefined) return problem(`The response of ${call} exceeds ${answerBytesMax} bytes`)
    const body = parseJson(text)
    const validate = this.#ajv.compile<Answer>(schemaIn(schema))
    if (validate(body)) return { kind: 'ok', body, text }
    const [error] = validate.errors ?? []
    const what = printable(`${error?.instancePath || 'it'} ${error?.message}`)
    return problem(
      `The response of ${call} does not match the API: ${what}. Check that the address is that of Latchkey, and that this program is not newer than the service`,
    )
  }
}

interface Loose {
  readonly path?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly idempotencyKey?: string
}

/** Points the references of a schema to the registered contract. */
function schemaIn(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"contract#/')) as object
}

function queryText(query: Loose['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

async function readText({ body }: Response): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    if (bytes > answerBytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Parses JSON; returns undefined if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the exit code for a response. A 404 without a code comes from another program than Latchkey and is a failure. */
function exitCodeOf(status: number, code: string | undefined) {
  if (status === 401 || status === 403) return exitCodes.refused
  if (code === 'not_found') return exitCodes.notFound
  return status >= 502 && status <= 504 ? exitCodes.unavailable : exitCodes.failed
}

function refusal({ status, headers }: Response, text: string | undefined, url: string) {
  const parsed = parseJson(text ?? '')
  const error = (typeof parsed === 'object' && parsed !== null ? parsed : {}) as Readonly<
    Record<string, unknown>
  >
  const [code, message, requestId] = ['code', 'message', 'requestId'].map((name) =>
    typeof error[name] === 'string' ? printable(error[name]).slice(0, messageCharsMax) : undefined,
  )
  const location = status >= 300 && status < 400 ? headers.get('location') : null
  const foreign = location
    ? `redirects to ${printable(location)}: use that address instead`
    : `answered ${status}, but not like Latchkey: check the address`
  const said = message ?? `${new URL(url).origin} ${foreign}`
  const hint =
    status === 401
      ? ': run latchkey login --internal, or correct LATCHKEY_TOKEN'
      : code === 'api_key_invalid'
        ? ': run latchkey login, or correct LATCHKEY_API_KEY'
        : ''
  const ids = [code, requestId && `request ${requestId}`].filter(Boolean).join(', ')
  const about = ids === '' ? '' : ` (${ids})`
  return {
    ...problem(`${said}${hint}${about}`, exitCodeOf(status, code)),
    code,
    json: { problem: said, status, code, requestId },
  }
}

function unreachable(origin: string, error: unknown) {
  const isLate = error instanceof Error && error.name === 'TimeoutError'
  const why = isLate ? `it did not respond within ${callMsMax / 1000} s` : reasonText(error)
  return problem(
    `${origin} cannot be reached: ${why}. Check the address, and whether the service is running`,
    exitCodes.unavailable,
  )
}

/** Returns the code of an error, or else its message, which can contain advice for programmers. */
export function reasonText(error: unknown): string {
  if (!(error instanceof Error)) return 'no answer'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message
}

function problem(text: string, exitCode: Problem['exitCode'] = exitCodes.failed) {
  return { kind: 'problem', problem: text, exitCode } as const
}
