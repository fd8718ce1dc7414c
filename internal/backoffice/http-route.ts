import type { TSchema } from '@sinclair/typebox'
import { type Action, type Actor, actorName } from '#internal/access/index.ts'
import { type ApiError, apiError, type ErrorCode, type TenantId, toWire } from '#internal/base/index.ts'
import {
  type AdmittingRoute,
  type Answer,
  type AnswerBody,
  createCallParser,
  type Head,
  type Params,
  type ParamValues,
  type RoomRoute,
  readIdempotencyKey,
  readParams,
} from '#internal/http/index.ts'
import { type ApiDocumentation, type DocumentedRoute, documentedParam, operationOf } from './http-document.ts'
import { malformedText, type PathParam, readTenantId } from './http-params.ts'
import { refusalError } from './http-refusals.ts'
import type { DocumentedAnswer } from './http-schemas.ts'
import type { Outcome } from './outcome.ts'
import { ownTenant } from './reach.ts'

/** Authenticated call with parsed parameters and body. `Desks` are the use cases that the routes of the API call. */
export interface RouteCall<Query extends Params, Body, Desks> {
  readonly backoffice: Desks
  readonly actor: Actor
  /** Tenant id from the path, otherwise the tenant of the API key. Empty if there is neither. */
  readonly tenantId: TenantId
  readonly params: Readonly<Record<string, string>>
  readonly query: ParamValues<Query>
  readonly body: Body
  /** JSON text as received. Empty without a body. */
  readonly text: string
  /** Empty if the header was not sent. Never empty if the route requires one. */
  readonly idempotencyKey: string
  /** Header `Last-Event-ID` of a route that streams. Empty if it was not sent. */
  readonly lastEventId: string
  /** Aborts when the caller disconnects. */
  readonly gone: AbortSignal
  readonly aside: Aside
}

/** Runs `wait` without counting the call as under way. Returns false if too many calls are under way afterwards; the call must then end. */
export type Aside = (wait: () => Promise<unknown>) => Promise<boolean>

export interface UseCaseRoute<Query extends Params, Body extends TSchema, Desks, Value> {
  readonly method: AdmittingRoute<unknown>['method']
  readonly path: string
  /** Path parameters that the shared `pathParams` do not document. */
  readonly pathParams?: Readonly<Record<string, PathParam>>
  readonly id: string
  readonly tag: string
  readonly summary: string
  /** Text in front of the sentence about the required right. Omit if the summary is enough. */
  readonly description?: string
  /** Right that the route requires in addition to `see`. */
  readonly right: Action
  /** Requires the right in the whole cluster, so API keys cannot call the route. */
  readonly isForAllTenants?: true
  readonly deprecated?: true
  readonly answer: DocumentedAnswer<Value>
  /** Description of the response. Default: a standard text for the status. */
  readonly answerText?: string
  /** Default 200. Use 202 for work that continues after the response. */
  readonly status?: 200 | 202
  /** Error codes in addition to those of every call of the API. */
  readonly errors?: readonly ErrorCode[]
  readonly query?: Query
  readonly body?: Body
  /** Treats a missing body as an object without fields. */
  readonly isBodyOptional?: true
  /** Example of a request body. */
  readonly example?: unknown
  /** Default 16 KiB. */
  readonly bodyBytesMax?: number
  /** Default: the header `Idempotency-Key` is ignored. */
  readonly idempotencyKey?: 'required' | 'optional'
  /** Documentation of the header. Default: a repeated request takes effect once. */
  readonly idempotencyKeyText?: string
  act(call: RouteCall<Query, Body['static'], Desks>): Promise<Outcome<NoInfer<Value>> | ApiError>
  /** Makes the response a stream of server-sent events. `write` must then return the stream. */
  readonly streams?: true
  /** Converts the value to JSON text, or to a stream. Default: the JSON text of `toWire`. */
  write?(value: NoInfer<Value>): AnswerBody
}

export type Caller = { readonly kind: 'actor'; readonly actor: Actor } | ApiError

/** API whose routes call use cases. `Parts` are the dependencies of its routes. */
export interface RouteApi<Parts> extends ApiDocumentation {
  readonly budget: NonNullable<AdmittingRoute<unknown>['budget']>
  authenticate(parts: Parts, request: Request): Caller | Promise<Caller>
  /** Error for an actor that sees the tenant but lacks the right of a route. */
  forbiddenError(route: Pick<DocumentedRoute, 'right' | 'isForAllTenants'>, actor: Actor): ApiError
  /** Runs the work of a call. Returns an error if too many calls are under way. */
  run(
    parts: Parts,
    actor: Actor,
    work: (aside: Aside) => Promise<Answer<AnswerBody> | ApiError>,
  ): Promise<Answer<AnswerBody> | ApiError>
}

const bodyBytesDefault = 16 * 1024

/** Members of a call that are parsed before the body is read. */
type RouteHead = Pick<
  RouteCall<Params, unknown, never>,
  'actor' | 'tenantId' | 'query' | 'idempotencyKey' | 'lastEventId'
>

/** Creates a route that authenticates before it reads the body. The body then counts towards the memory that the caller may use. */
export function createRoute<
  Desks,
  Parts extends { readonly backoffice: Desks },
  Query extends Params,
  Body extends TSchema,
  Value,
>(
  api: RouteApi<Parts>,
  definition: UseCaseRoute<Query, Body, Desks, Value>,
): RoomRoute<Parts, AdmittingRoute<RouteHead>> {
  const { method, path, body } = definition
  const { budget } = api
  const parse = createCallParser(body, undefined, definition.isBodyOptional)
  const bodyBytesMax = body === undefined ? 0 : (definition.bodyBytesMax ?? bodyBytesDefault)
  return {
    method,
    path,
    operation: operationOf(api, definition),
    bind: (parts) => ({
      method,
      path,
      budget,
      admitsMalformedParams: true,
      access: {
        async admit(head) {
          const caller = await api.authenticate(parts, head.request)
          if (caller.kind === 'error') return caller
          const { actor } = caller
          const read = readHead(definition, head, actor)
          if (read.kind === 'error') return read
          const owner = actorName(actor)
          const tenant = actor.kind === 'tenantKey' ? { tenant: actor.tenantId } : {}
          const admitted = { ...read.head, actor }
          return { kind: 'admitted', admitted, ...tenant, owner, bodyBytesMax, log: { actor: owner } }
        },
      },
      async handle(call, head) {
        const parsed = parse(call)
        if ('kind' in parsed) return parsed
        // The parser of this route produced `head.query`, so the type assertion is safe.
        const query = head.query as ParamValues<Query>
        const { params } = call
        const { backoffice } = parts
        const gone = call.request.signal
        return await api.run(parts, head.actor, async (aside) => {
          const { body: parsedBody, text } = parsed
          const given = { ...head, body: parsedBody, text, query, params, backoffice, gone, aside }
          return answerOf(api, definition, await definition.act(given), head.actor)
        })
      },
    }),
  }
}

type ReadHead = { readonly kind: 'head'; readonly head: Omit<RouteHead, 'actor'> } | ApiError

const noParams: Params = {}
const noTenant = '' as TenantId

function readHead(
  { query: known = noParams, idempotencyKey: keyRule, pathParams: own }: DocumentedRoute,
  { request, params }: Head,
  actor: Actor,
): ReadHead {
  // Responds 404 for a malformed parameter, because no object has such a name. The server passes malformed parameters as empty texts.
  const { tenantId: keyTenant = noTenant } = ownTenant(actor)
  const tenantId = params['tenantId'] === undefined ? keyTenant : readTenantId(params['tenantId'])
  const malformed = (name: string) => apiError('not_found', malformedText(name, documentedParam(name, own)))
  if (tenantId === undefined) return malformed('tenantId')
  const empty = Object.keys(params).find((name) => params[name] === '')
  if (empty !== undefined) return malformed(empty)
  const query = readParams(request.url, known)
  if (query.kind === 'error') return query
  const idempotencyKey = keyRule === undefined ? '' : readIdempotencyKey(request)
  if (typeof idempotencyKey === 'object') return idempotencyKey
  if (idempotencyKey === undefined && keyRule === 'required')
    return apiError('invalid_request', 'The header Idempotency-Key is required')
  return {
    kind: 'head',
    head: {
      tenantId,
      query: query.values,
      idempotencyKey: idempotencyKey ?? '',
      lastEventId: request.headers.get('last-event-id') ?? '',
    },
  }
}

function answerOf<Value>(
  api: Pick<RouteApi<never>, 'forbiddenError'>,
  route: Pick<
    UseCaseRoute<Params, TSchema, never, Value>,
    'right' | 'isForAllTenants' | 'write' | 'status' | 'streams'
  >,
  result: Outcome<Value> | ApiError,
  actor: Actor,
): Answer<AnswerBody> | ApiError {
  if (result.kind === 'error') return result
  if (result.kind === 'forbidden') return api.forbiddenError(route, actor)
  if (result.kind !== 'ok') return refusalError(result)
  const { write, status = 200, streams } = route
  const { value } = result
  const isRepeat = typeof value === 'object' && value !== null && changedNothing(value)
  return {
    kind: 'answer',
    status,
    outcome: isRepeat ? 'repeated' : 'done',
    body: write ? write(value) : JSON.stringify(toWire(value)),
    ...(isRepeat && { headers: { 'Idempotent-Replayed': 'true' } }),
    ...(streams && { headers: { 'Content-Type': 'text/event-stream' } }),
  }
}

function changedNothing(value: object): boolean {
  return ('isNew' in value && value.isNew === false) || ('existed' in value && value.existed === false)
}
