import type { TSchema } from '@sinclair/typebox'
import {
  type Access,
  type Action,
  type Actor,
  actorName,
  keyActions,
  rightOf,
} from '#internal/access/index.ts'
import { type ApiError, apiError, type ErrorCode, type TenantId, toWire } from '#internal/base/index.ts'
import {
  type AdmittingRoute,
  type Answer,
  createCallParser,
  type Head,
  idempotencyKeyParam,
  type Parameter,
  type Params,
  type ParamValues,
  paramsInDocument,
  type RoomRoute,
  readIdempotencyKey,
  readParams,
} from '#internal/http/index.ts'
import type { ApiKeyScope } from '#internal/tenants/index.ts'
import type { Backoffice } from './backoffice.ts'
import type { DocumentedAnswer } from './http-answers.ts'
import { malformedText, type PathParam, pathParams, readTenantId } from './http-params.ts'
import type { Outcome, Refusal } from './outcome.ts'

/** Dependencies of the routes of the internal API. */
export interface InternalParts {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
}

/** A call whose caller is authenticated and whose parameters and body are parsed. */
export interface InternalCall<Query extends Params, Body> {
  readonly backoffice: Backoffice
  readonly actor: Actor
  /** Tenant id from the path. Empty for paths without a tenant. */
  readonly tenantId: TenantId
  readonly params: Readonly<Record<string, string>>
  readonly query: ParamValues<Query>
  readonly body: Body
  /** JSON text of the body as received. Empty if the call has no body. */
  readonly text: string
  /** Empty if the header was not sent. Never empty if the route requires an idempotency key. */
  readonly idempotencyKey: string
}

/** A route of the internal API with its parameters, body, documentation and use case. */
export interface InternalRoute<Query extends Params, Body extends TSchema> {
  readonly method: AdmittingRoute<unknown>['method']
  readonly path: string
  /** Path parameters that `pathParams` does not document. */
  readonly pathParams?: Readonly<Record<string, PathParam>>
  readonly id: string
  readonly tag: string
  readonly summary: string
  /** Text in front of the sentence about the required right. Omit it if the summary says all. */
  readonly description?: string
  /** Action that the caller needs the right for, besides `see`. */
  readonly right: Action
  /** Set if the right must hold in the whole cluster, which excludes API keys. */
  readonly isForAllTenants?: true
  readonly deprecated?: true
  readonly answer: DocumentedAnswer
  /** Description of the answer. Default: a text for the status. */
  readonly answerText?: string
  /** Status of the response. Default 200. 202 for work that continues after the response. */
  readonly status?: 200 | 202
  /** Errors in addition to those that every internal call can return. */
  readonly errors?: readonly ErrorCode[]
  readonly query?: Query
  readonly body?: Body
  /** Set if a request without a body means an object without fields. */
  readonly isBodyOptional?: true
  /** Example of the request body. */
  readonly example?: unknown
  /** Maximum size of the body. Default 16 KiB. */
  readonly bodyBytesMax?: number
  /** Default: the header `Idempotency-Key` is ignored. */
  readonly idempotencyKey?: 'required' | 'optional'
  /** Description of the header. Default: a repeated request takes effect once. */
  readonly idempotencyKeyText?: string
  act(call: InternalCall<Query, Body['static']>): Promise<Outcome<unknown> | ApiError>
  /** Returns the response as JSON text. Default: `toWire`. */
  write?(value: never): string
}

const bodyBytesDefault = 16 * 1024

/** Parts of a call that are parsed before the body is read. */
type InternalHead = Pick<InternalCall<Params, unknown>, 'actor' | 'tenantId' | 'query' | 'idempotencyKey'>

/**
 * Defines a route of the internal API. The caller is authenticated before the body is read. The body counts towards the caller's share of
 * the memory for bodies.
 */
export function internalRoute<Query extends Params, Body extends TSchema>(
  definition: InternalRoute<Query, Body>,
): RoomRoute<InternalParts, AdmittingRoute<InternalHead>> {
  const { method, path, body } = definition
  const parse = createCallParser(body, undefined, definition.isBodyOptional)
  const bodyBytesMax = body === undefined ? 0 : (definition.bodyBytesMax ?? bodyBytesDefault)
  return {
    ...{ method, path, operation: operationOf(definition) },
    bind: ({ backoffice, access }) => ({
      ...{ method, path, admitsMalformedParams: true },
      access: {
        async admit(head) {
          const caller = await findCaller(access, head.request)
          if (caller.kind === 'error') return caller
          const read = readHead(definition, head)
          if (read.kind === 'error') return read
          const { actor } = caller
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
        const result = await definition.act({
          ...head,
          body: parsed.body,
          text: parsed.text,
          query,
          params: call.params,
          backoffice,
        })
        return answerOf(definition, result, head.actor)
      },
    }),
  }
}

type ReadHead = { readonly kind: 'head'; readonly head: Omit<InternalHead, 'actor'> } | ApiError

const noParams: Params = {}
const noTenant = '' as TenantId

function readHead(
  { query: known = noParams, idempotencyKey: keyRule, pathParams: own }: Documentation,
  { request, params }: Head,
): ReadHead {
  // Nothing has a malformed name, so a malformed parameter, which the server passes as an empty text, is handled like an unknown one.
  const tenantId = params['tenantId'] === undefined ? noTenant : readTenantId(params['tenantId'])
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
  return { kind: 'head', head: { tenantId, query: query.values, idempotencyKey: idempotencyKey ?? '' } }
}

function answerOf(
  route: Pick<InternalRoute<Params, TSchema>, 'right' | 'isForAllTenants' | 'write' | 'status'>,
  result: Outcome<unknown> | ApiError,
  actor: Actor,
): Answer | ApiError {
  if (result.kind === 'error') return result
  if (result.kind === 'forbidden' && actor.kind === 'tenantKey')
    return apiError(
      'forbidden',
      `${keyBoundsText(route)}: use a token of kubectl create token NAME --audience latchkey`,
    )
  if (result.kind !== 'ok') return refusalError(result)
  const { write, status = 200 } = route
  const { value } = result
  const isRepeat = typeof value === 'object' && value !== null && changedNothing(value)
  return {
    ...{ kind: 'answer', status, outcome: isRepeat ? 'repeated' : 'done' },
    body: write ? write(value as never) : JSON.stringify(toWire(value)),
    ...(isRepeat && { headers: { 'Idempotent-Replayed': 'true' } }),
  }
}

function changedNothing(value: object): boolean {
  return ('isNew' in value && value.isNew === false) || ('existed' in value && value.existed === false)
}

type Caller = { readonly kind: 'actor'; readonly actor: Actor } | ApiError

const bearer = /^Bearer +([\x21-\x7e]+) *$/i

async function findCaller(access: Pick<Access, 'authenticate'>, { headers }: Request): Promise<Caller> {
  const token = bearer.exec(headers.get('authorization') ?? '')?.[1]
  if (token === undefined) return unauthenticated()
  const authenticated = await access.authenticate(token)
  if (authenticated.kind === 'unavailable') return refusalError(authenticated)
  if (authenticated.kind === 'actor') return authenticated
  switch (authenticated.cause) {
    case 'keyScope':
      return apiError(
        'api_key_scope',
        'This API key has neither the scope dashboard nor dashboard:read: ask for a key with one of them',
      )
    case 'tenantSuspended':
      return apiError('tenant_suspended')
    case 'otherAudience':
      return unauthenticated(
        'This token is also valid for other audiences: create a token with kubectl create token NAME --audience latchkey',
      )
    case 'unknown':
      return unauthenticated()
  }
}

function unauthenticated(message?: string): ApiError {
  return apiError('unauthenticated', message, { 'WWW-Authenticate': 'Bearer realm="latchkey"' })
}

const tooManyRetrySeconds = 60

function refusalError(refusal: Refusal): ApiError {
  switch (refusal.kind) {
    case 'forbidden':
      return apiError('forbidden')
    case 'notFound':
      return apiError('not_found', refusal.problem)
    case 'invalid': {
      const { field, problem } = refusal
      return apiError('invalid_request', field === undefined ? problem : `"${field}" ${problem}`)
    }
    case 'conflict':
      return apiError(refusal.code ?? 'conflict', refusal.problem)
    case 'keyReused':
      return apiError('idempotency_key_reused', refusal.problem)
    case 'tooMany':
      return apiError(refusal.code, refusal.problem, { 'Retry-After': String(tooManyRetrySeconds) })
    case 'unavailable':
      return apiError(refusal.code ?? 'unavailable', undefined, retryAfter(refusal.retryAfterMs))
    case 'secretsUnreadable':
      return apiError('secrets_unreadable', undefined, retryAfter(refusal.retryAfterMs))
  }
}

function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}

const commonErrors: readonly ErrorCode[] = [
  ...(['invalid_request', 'unauthenticated', 'forbidden', 'api_key_scope', 'tenant_suspended'] as const),
  ...(['not_found', 'internal', 'unavailable', 'body_dropped', 'overloaded'] as const),
]

const errorTexts: Readonly<Record<number, string>> = {
  401: 'No token, an unknown one, or one that is also for other audiences than `latchkey`.',
  403: 'The caller lacks the right; or the API key is not for the dashboard.',
  404: 'It does not exist, or the caller may not see it: both look the same.',
  409: 'The state differs from the expected one, or the tenant’s state does not allow it. Nothing was changed.',
  422: 'The `Idempotency-Key`, or the id of the usage, was used with another request. Nothing was changed.',
  429: 'Too many are unfinished: wait until one ends.',
  503: 'The API server or a store does not answer, the key ring does not decrypt the secrets that the call needs, or too many calls are under way. Repeat the call unchanged.',
}

const writeTexts = {
  200: 'Done, by this call or by an earlier one.',
  202: 'Started, by this call or by an earlier one; the work continues after this response.',
} as const

type Documentation = Omit<InternalRoute<Params, TSchema>, 'act' | 'write'>

function operationOf(definition: Documentation): RoomRoute<unknown>['operation'] {
  const {
    method,
    id,
    tag,
    summary,
    description,
    deprecated,
    answer,
    status = 200,
    answerText,
    errors = [],
    body,
    isBodyOptional,
    example,
  } = definition
  const isWrite = method !== 'GET'
  const statusText = isWrite ? writeTexts[status] : 'The requested data.'
  return {
    ...{ id, tag, summary, security: 'token', errorTexts },
    description: [description, rightText(definition)].filter(Boolean).join(' '),
    ...(deprecated && { deprecated }),
    parameters: parametersOf(definition),
    ...(body && {
      requestBody: {
        required: !isBodyOptional,
        content: { 'application/json': { schema: body, examples: { example: { value: example } } } },
      },
    }),
    answers: {
      [status]: {
        description: answerText ?? statusText,
        schema: answer.schema,
        examples: { example: { value: answer.example } },
        headers: isWrite ? ['Idempotent-Replayed'] : [],
      },
    },
    errors: [...commonErrors, ...errors, ...(body ? (['body_too_large'] as const) : [])],
  }
}

function documentedParam(name: string, own: Documentation['pathParams']): PathParam {
  const documented: Readonly<Record<string, PathParam>> = { ...pathParams, ...own }
  const param = documented[name]
  if (param === undefined) throw new Error(`the path parameter ${name} is not documented`)
  return param
}

type RouteRight = Pick<Documentation, 'right' | 'isForAllTenants'>

/** Sets of scopes with which an API key can do something here, by the actions that they add. */
const scopeSets = [
  { scopes: ['dashboard:read'], text: 'scope `dashboard` or `dashboard:read`' },
  { scopes: ['dashboard'], text: 'scope `dashboard`' },
  { scopes: ['dashboard', 'simulations'], text: 'scopes `dashboard` and `simulations`' },
] as const satisfies readonly { readonly scopes: readonly ApiKeyScope[]; readonly text: string }[]

/** Returns the smallest set of scopes with which an API key has the right of a route, or undefined if no key has it. */
function scopesFor({ right, isForAllTenants }: RouteRight) {
  if (isForAllTenants) return undefined
  return scopeSets.find(({ scopes }) => keyActions(new Set(scopes)).has(right))
}

/** Returns the sentence about the right that an operation requires, and about the scopes of API keys that have it. */
function rightText(route: RouteRight): string {
  const requires = `Requires the right \`${rightOf(route.right)}\`${route.isForAllTenants ? ' in the whole cluster' : ''}`
  const keys = scopesFor(route)
  return keys === undefined
    ? `${requires}; no API key has it.`
    : `${requires}, or an API key of ${keys.text}.`
}

/** Returns what an API key may do with a route that refused one. Every key that is let in has the right to see. */
function keyBoundsText(route: RouteRight): string {
  const keys = scopesFor(route)
  if (keys === undefined) return 'No API key may do this'
  if (route.right === 'see') return 'With an API key this call only reads, and only the tenant of the key'
  return `With an API key this call needs the ${keys.text.replaceAll('`', '')}, and reaches only the tenant of the key`
}

const onceText =
  'Caller’s key for this request. Repeated requests with the same key take effect once; a different request with the same key returns 422.'

function parametersOf({
  path,
  pathParams: own,
  query = {},
  idempotencyKey,
  idempotencyKeyText: keyText = onceText,
}: Documentation): Parameter[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']): Parameter => {
    const { description, schema, example } = documentedParam(name, own)
    return {
      ...{ name, in: 'path', required: true, description, schema },
      examples: { example: { value: example } },
    }
  })
  const header = idempotencyKeyParam({
    required: idempotencyKey === 'required',
    description: keyText,
    examples: { example: { value: 'nightly-2026-11-21' } },
  })
  return [...inPath, ...paramsInDocument(query), ...(idempotencyKey === undefined ? [] : [header])]
}
