import type { TSchema } from '@sinclair/typebox'
import { type Access, type Actor, actorName } from '#internal/access/index.ts'
import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import {
  type Answer,
  type Call,
  createParser,
  type PublicRoute,
  parseJsonObject,
} from '#internal/http/index.ts'
import type { Backoffice } from './backoffice.ts'
import { type Params, type ParamValues, readParams, readTenantId } from './http-params.ts'
import { toWire } from './http-wire.ts'
import type { Outcome, Refusal } from './outcome.ts'

/** What the internal contract is served with. */
export interface InternalParts {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
}

/** A call whose caller is known, with everything of it read. */
export interface InternalCall<Query extends Params, Body> {
  readonly backoffice: Backoffice
  readonly actor: Actor
  /** The path's tenant; of paths without one nobody's. */
  readonly tenantId: TenantId
  readonly params: Readonly<Record<string, string>>
  readonly query: ParamValues<Query>
  readonly body: Body
  /** The body as it was received; '' where there is none. */
  readonly text: string
  /** '' where none was sent; a row that requires one has one. */
  readonly idempotencyKey: string
}

/** A row of the internal contract. */
export interface InternalRow<Query extends Params = Params, Body extends TSchema = TSchema> {
  readonly method: PublicRoute['method']
  readonly path: string
  readonly query?: Query
  readonly body?: Body
  /** Default 16 KiB. */
  readonly bodyBytesMax?: number
  /** Whether it takes the header `Idempotency-Key`; default no. */
  readonly idempotencyKey?: 'required' | 'optional'
  act(call: InternalCall<Query, Body['static']>): Promise<Outcome<unknown> | ApiError>
  /** JSON text of what is answered; default: the value, as `toWire` writes it. */
  write?(value: never): string
}

const bodyBytesDefault = 16 * 1024
const keyForm = /^[\x20-\x7e]{1,200}$/
const tooManyRetrySeconds = 60

/** Makes a row whose query and body are typed by their schemas. */
export function internalRow<Query extends Params, Body extends TSchema>(
  row: InternalRow<Query, Body>,
): InternalRow {
  // What stands in one table is called with what its own schemas have read: as `act` is a method, one of any type stands there.
  return row
}

/** Makes the route of a row. */
export function routeOf(parts: InternalParts, row: InternalRow): PublicRoute {
  const parse = row.body && createParser(row.body)
  return {
    access: 'public',
    method: row.method,
    path: row.path,
    bodyBytesMax: row.body === undefined ? 0 : (row.bodyBytesMax ?? bodyBytesDefault),
    handle: (call) => serve(parts, row, parse, call),
  }
}

type Parse = ReturnType<typeof createParser>

async function serve(
  { backoffice, access }: InternalParts,
  row: InternalRow,
  parse: Parse | undefined,
  call: Call,
): Promise<Answer | ApiError> {
  const caller = await callerOf(access, call.request)
  if (caller.kind === 'error') return caller
  const read = readCall(row, parse, call)
  if (read.kind === 'error') return read
  const { actor } = caller
  const result = await row.act({ ...read.call, backoffice, actor })
  if (result.kind === 'error') return result
  if (result.kind !== 'ok') return refused(result)
  const { value } = result
  const isRepeat = typeof value === 'object' && value !== null && 'isNew' in value && value.isNew === false
  return {
    ...{ kind: 'answer', status: 200, outcome: isRepeat ? 'repeated' : 'done' },
    body: row.write ? row.write(value as never) : JSON.stringify(toWire(value)),
    ...(isRepeat && { headers: { 'Idempotent-Replayed': 'true' } }),
    log: { actor: actorName(actor) },
  }
}

type Caller = { readonly kind: 'actor'; readonly actor: Actor } | ApiError
const bearer = /^Bearer +([\x21-\x7e]+) *$/i

async function callerOf(access: InternalParts['access'], { headers }: Request): Promise<Caller> {
  const token = bearer.exec(headers.get('authorization') ?? '')?.[1]
  if (token === undefined) return unauthenticated()
  const authenticated = await access.authenticate(token)
  if (authenticated.kind === 'unavailable') return refused(authenticated)
  if (authenticated.kind === 'actor') return authenticated
  switch (authenticated.cause) {
    case 'keyScope':
      return apiError('api_key_scope', 'This API key lacks the scope dashboard: ask for a key with it')
    case 'tenantSuspended':
      return apiError('tenant_suspended')
    case 'otherAudience':
      return unauthenticated(
        'This token is for others, too: make one with kubectl create token NAME --audience latchkey',
      )
    case 'unknown':
      return unauthenticated()
  }
}

function unauthenticated(message?: string): ApiError {
  return apiError('unauthenticated', message, { 'WWW-Authenticate': 'Bearer realm="latchkey"' })
}

type ReadCall =
  | { readonly kind: 'call'; readonly call: Omit<InternalCall<Params, unknown>, 'backoffice' | 'actor'> }
  | ApiError

const noParams: Params = {}

function readCall(row: InternalRow, parse: Parse | undefined, { request, params, body }: Call): ReadCall {
  // Of a path that names what cannot be there is nothing.
  const tenantId = params['tenantId'] === undefined ? nobody : readTenantId(params['tenantId'])
  if (tenantId === undefined) return apiError('not_found')
  const query = readParams(request.url, row.query ?? noParams)
  if (query.kind === 'error') return query
  const idempotencyKey = readKey(row, request)
  if (typeof idempotencyKey !== 'string') return idempotencyKey
  const read = { tenantId, params, query: query.values, idempotencyKey }
  if (parse === undefined) return { kind: 'call', call: { ...read, body: undefined, text: '' } }
  const json = parseJsonObject(body)
  if (json.kind === 'error') return json
  const parsed = parse(json.value)
  if (parsed.kind === 'error') return parsed
  return { kind: 'call', call: { ...read, body: parsed.value, text: json.text } }
}

const nobody = '' as TenantId

function readKey({ idempotencyKey }: InternalRow, request: Request): string | ApiError {
  const key = request.headers.get('idempotency-key') ?? ''
  // One that means nothing here is no fault: clients send it with every call.
  if (idempotencyKey === undefined) return ''
  if (key === '' && idempotencyKey === 'optional') return ''
  return keyForm.test(key)
    ? key
    : apiError('invalid_request', 'Send the header Idempotency-Key: 1 to 200 characters of ASCII')
}

function refused(refusal: Refusal): ApiError {
  switch (refusal.kind) {
    case 'forbidden':
      return apiError('forbidden')
    case 'notFound':
      return apiError('not_found')
    case 'invalid':
      return apiError('invalid_request', refusal.problem)
    case 'conflict':
      return apiError('conflict', refusal.problem)
    case 'tooMany':
      return apiError('too_many', refusal.problem, { 'Retry-After': String(tooManyRetrySeconds) })
    case 'unavailable':
      return apiError('unavailable', undefined, {
        'Retry-After': String(Math.max(1, Math.ceil(refusal.retryAfterMs / 1000))),
      })
  }
}
