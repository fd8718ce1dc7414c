import type { TSchema } from '@sinclair/typebox'
import type { ErrorCode } from '#internal/base/index.ts'
import {
  idempotencyKeyParam,
  type Operation,
  type Parameter,
  type Params,
  paramsInDocument,
  type RoomRoute,
} from '#internal/http/index.ts'
import { type PathParam, pathParams } from './http-params.ts'
import type { UseCaseRoute } from './http-route.ts'

export interface ApiDocumentation {
  readonly security: NonNullable<Operation['security']>
  readonly commonErrors: readonly ErrorCode[]
  readonly errorTexts: Readonly<Record<number, string>>
  rightText(route: Pick<DocumentedRoute, 'right' | 'isForAllTenants'>): string
}

export type DocumentedRoute = Omit<UseCaseRoute<Params, TSchema, never, unknown>, 'act' | 'write'>

const writeTexts = {
  200: 'Done, by this call or by an earlier one.',
  202: 'Started, by this call or by an earlier one; the work continues after this response.',
} as const

export function operationOf(
  { security, commonErrors, errorTexts, rightText }: ApiDocumentation,
  definition: DocumentedRoute,
): RoomRoute<unknown>['operation'] {
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
    streams,
    errors = [],
    body,
    isBodyOptional,
    example,
  } = definition
  const isWrite = method !== 'GET'
  const statusText = isWrite ? writeTexts[status] : 'The requested data.'
  return {
    id,
    tag,
    summary,
    security,
    errorTexts,
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
        ...(streams && { isStream: true as const }),
      },
    },
    errors: [...commonErrors, ...errors, ...(body ? (['body_too_large'] as const) : [])],
  }
}

/** @throws if the path parameter is not documented */
export function documentedParam(name: string, own: DocumentedRoute['pathParams']): PathParam {
  const documented: Readonly<Record<string, PathParam>> = { ...pathParams, ...own }
  const param = documented[name]
  if (param === undefined) throw new Error(`the path parameter ${name} is not documented`)
  return param
}

const onceText =
  'Caller’s key for this request. Repeated requests with the same key take effect once; a different request with the same key returns 422.'

function parametersOf({
  path,
  pathParams: own,
  query = {},
  idempotencyKey,
  idempotencyKeyText: keyText = onceText,
  streams,
}: DocumentedRoute): Parameter[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']): Parameter => {
    const { description, schema, example } = documentedParam(name, own)
    return {
      name,
      in: 'path',
      required: true,
      description,
      schema,
      examples: { example: { value: example } },
    }
  })
  const header = idempotencyKeyParam({
    required: idempotencyKey === 'required',
    description: keyText,
    examples: { example: { value: 'nightly-2026-11-21' } },
  })
  return [
    ...inPath,
    ...paramsInDocument(query),
    ...(idempotencyKey === undefined ? [] : [header]),
    ...(streams ? [lastEventId] : []),
  ]
}

const lastEventId: Parameter = {
  name: 'Last-Event-ID',
  in: 'header',
  required: false,
  description:
    'Id of the last event that the caller has handled. Clients of server-sent events send it when they reconnect.',
  schema: { type: 'string', maxLength: 128 },
}
