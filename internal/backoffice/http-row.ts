import type { TSchema } from '@sinclair/typebox'
import { type Access, type Actor, actorName } from '#internal/access/index.ts'
import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import {
  type AdmittingRoute,
  type Answer,
  createParser,
  type Head,
  parseJsonObject,
} from '#internal/http/index.ts'
import type { Backoffice } from './backoffice.ts'
import { findCaller, refusalError } from './http-caller.ts'
import { type Params, type ParamValues, readParams, readTenantId } from './http-params.ts'
import { toWire } from './http-wire.ts'
import type { Outcome } from './outcome.ts'

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
  readonly method: AdmittingRoute<unknown>['method']
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

/** Makes a row whose query and body are typed by their schemas. */
export function internalRow<Query extends Params, Body extends TSchema>(
  row: InternalRow<Query, Body>,
): InternalRow {
  // What stands in one table is called with what its own schemas have read: as `act` is a method, one of any type stands there.
  return row
}

/** What is known of a call before its body is read: who calls, and what the path, the query and the headers say. */
type InternalHead = Pick<InternalCall<Params, unknown>, 'actor' | 'tenantId' | 'query' | 'idempotencyKey'>

/** Makes the route of a row. Who calls is asked before a body is read, each of whom has a share of the room for bodies. */
export function routeOf(
  { backoffice, access }: InternalParts,
  row: InternalRow,
): AdmittingRoute<InternalHead> {
  const parse = row.body && createParser(row.body)
  const bodyBytesMax = row.body === undefined ? 0 : (row.bodyBytesMax ?? bodyBytesDefault)
  return {
    method: row.method,
    path: row.path,
    access: {
      async admit(head) {
        const caller = await findCaller(access, head.request)
        if (caller.kind === 'error') return caller
        const read = readHead(row, head)
        if (read.kind === 'error') return read
        const { actor } = caller
        const owner = actorName(actor)
        const tenant = actor.kind === 'tenantKey' ? { tenant: actor.tenantId } : {}
        const admitted = { ...read.head, actor }
        return { kind: 'admitted', admitted, ...tenant, owner, bodyBytesMax, log: { actor: owner } }
      },
    },
    async handle({ params, body }, head) {
      const read = readBody(parse, body)
      if (read.kind === 'error') return read
      return answerOf(row, await row.act({ ...head, ...read.read, params, backoffice }))
    },
  }
}

type ReadHead = { readonly kind: 'head'; readonly head: Omit<InternalHead, 'actor'> } | ApiError

const noParams: Params = {}
const nobody = '' as TenantId

function readHead(row: InternalRow, { request, params }: Head): ReadHead {
  // Of a path that names what cannot be there is nothing.
  const tenantId = params['tenantId'] === undefined ? nobody : readTenantId(params['tenantId'])
  if (tenantId === undefined) return apiError('not_found')
  const query = readParams(request.url, row.query ?? noParams)
  if (query.kind === 'error') return query
  const idempotencyKey = readKey(row, request)
  if (typeof idempotencyKey !== 'string') return idempotencyKey
  return { kind: 'head', head: { tenantId, query: query.values, idempotencyKey } }
}

function readKey({ idempotencyKey }: InternalRow, request: Request): string | ApiError {
  const key = request.headers.get('idempotency-key') ?? ''
  // One that means nothing here is no fault: clients send it with every call.
  if (idempotencyKey === undefined) return ''
  if (key === '' && idempotencyKey === 'optional') return ''
  return keyForm.test(key)
    ? key
    : apiError('invalid_request', 'Send the header Idempotency-Key: 1 to 200 characters of ASCII')
}

type ReadBody =
  | { readonly kind: 'body'; readonly read: Pick<InternalCall<Params, unknown>, 'body' | 'text'> }
  | ApiError

function readBody(parse: ReturnType<typeof createParser> | undefined, body: Uint8Array): ReadBody {
  if (parse === undefined) return { kind: 'body', read: { body: undefined, text: '' } }
  const json = parseJsonObject(body)
  if (json.kind === 'error') return json
  const parsed = parse(json.value)
  return parsed.kind === 'error' ? parsed : { kind: 'body', read: { body: parsed.value, text: json.text } }
}

function answerOf(row: InternalRow, result: Outcome<unknown> | ApiError): Answer | ApiError {
  if (result.kind === 'error') return result
  if (result.kind !== 'ok') return refusalError(result)
  const { value } = result
  const isRepeat = typeof value === 'object' && value !== null && 'isNew' in value && value.isNew === false
  return {
    ...{ kind: 'answer', status: 200, outcome: isRepeat ? 'repeated' : 'done' },
    body: row.write ? row.write(value as never) : JSON.stringify(toWire(value)),
    ...(isRepeat && { headers: { 'Idempotent-Replayed': 'true' } }),
  }
}
