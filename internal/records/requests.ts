import { Type } from '@sinclair/typebox'
import { type Documented, type JsonSchema, plainText } from '#internal/http/index.ts'

export const batchChecksMax = 100
export const lockSecondsMax = 900
/** Maximum wait of a check for a busy key. */
export const waitMsMax = 25_000

/**
 * Text that becomes part of a Redis key or is compared. Its length is counted in code points. Control characters, lone surrogates and
 * U+FFFD are refused: UTF-8 cannot represent lone surrogates, and decoders replace invalid bytes by U+FFFD, so that two different keys
 * could become equal.
 */
function text(lengthMax: number, description: string) {
  return plainText(lengthMax, { description })
}

const scope = text(128, 'Namespace of the key.')
const key = text(255, 'Idempotency key within the scope.')
const lockToken = Type.RegExp(/^[^]{1,128}$/u, {
  description: 'The token returned when the lock was taken. Opaque.',
})
/** The OpenAPI document shows the configured maximum; `checkTtl` checks values, since a tenant may set a lower one. */
const ttlSeconds = Type.Integer({
  minimum: 1,
  documented: (({ recordTtlSecondsMax }) => ({
    type: 'integer',
    minimum: 1,
    maximum: recordTtlSecondsMax,
    description:
      'Seconds the record is kept. Default 86400, or the maximum if that is shorter. The tenant may set a lower maximum.',
  })) satisfies Documented<JsonSchema>,
})
const lockSeconds = Type.Integer({
  minimum: 1,
  maximum: lockSecondsMax,
  description: 'Seconds the lock is held. Default 60; at most `ttlSeconds`.',
})

const headerNameCharsMax = 256
const headerValueCharsMax = 65_536
export const headerNameExpected = `an HTTP field name (RFC 9110 token, 1 to ${headerNameCharsMax} characters)`
const headerName = new RegExp(`^[!#$%&'*+.^_\`|~0-9A-Za-z-]{1,${headerNameCharsMax}}$`)

/**
 * Headers of a saved response (RFC 9110, sections 5.1 and 5.5), validated so that a replay cannot split a header in two. A value can
 * contain any character except controls: characters outside ASCII are obs-text, UTF-8 or Latin-1. White space around a value is kept.
 */
const responseHeaders = Type.Unsafe<Record<string, string>>(
  // The name pattern of Type.Record does not match a line break, so the value of such a name would not be validated.
  Type.Object(
    {},
    {
      propertyNames: {
        pattern: headerName.source,
        maxLength: headerNameCharsMax,
        expected: headerNameExpected,
      },
      additionalProperties: Type.RegExp(
        new RegExp(`^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f\\p{Cs}]{0,${headerValueCharsMax}}$`, 'u'),
        {
          expected: `a valid HTTP field value (RFC 9110, at most ${headerValueCharsMax} characters, no control characters except tabs)`,
        },
      ),
      description: 'Headers of the response being saved: names are tokens, values field values of RFC 9110.',
    },
  ),
)

/** Checks header names, since TypeBox does not check `propertyNames`. */
export function findBadHeaderName(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.keys(headers).find((name) => !headerName.test(name))
}

const checkFields = {
  scope,
  key,
  ttlSeconds: Type.Optional(ttlSeconds),
  lockSeconds: Type.Optional(lockSeconds),
  attemptId: Type.Optional(
    text(128, 'Attempt id. The same attempt may repeat the call after a lost reply and gets its own lock.'),
  ),
  fingerprint: Type.Optional(
    text(255, "Hash of the caller's request. A different one under the same key is refused with 422."),
  ),
}

/** Body of POST /v1/record. */
export const CheckRequest = Type.Object(
  {
    ...checkFields,
    waitMs: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: waitMsMax,
        description:
          'Milliseconds to wait for a busy key. Default 0. A process lets 250 calls of a tenant wait at a time; further calls are answered at once.',
      }),
    ),
  },
  { additionalProperties: false, $id: 'CheckRequest' },
)
export type CheckRequest = typeof CheckRequest.static

/** Check in a batch. Does not wait for a busy key. */
export const BatchCheck = Type.Object(checkFields, { additionalProperties: false, $id: 'BatchCheck' })
export type BatchCheck = typeof BatchCheck.static

/** Validates each check separately, so that an invalid check does not fail the others. */
export const BatchRequest = Type.Object(
  {
    checks: Type.Array(Type.Unknown({ documented: BatchCheck }), {
      minItems: 1,
      maxItems: batchChecksMax,
      description: 'Each check is answered on its own: one that is not valid gets an error in its place.',
    }),
  },
  { additionalProperties: false, $id: 'BatchRequest' },
)

/** Body of PUT /v1/record. */
export const SaveRequest = Type.Object(
  {
    scope,
    key,
    status: Type.Integer({
      minimum: 100,
      maximum: 599,
      description: 'Status code of the response being saved.',
    }),
    headers: Type.Optional(responseHeaders),
    body: Type.Unknown({
      documented: (({ recordBodyBytesMax }) => ({
        description: `Body of the response being saved: any JSON value, kept as received. At most ${recordBodyBytesMax} bytes of JSON; the tenant may set a lower maximum.`,
      })) satisfies Documented<JsonSchema>,
    }),
    ttlSeconds: Type.Optional(ttlSeconds),
    lockToken: Type.Optional(lockToken),
  },
  { additionalProperties: false, $id: 'SaveRequest' },
)
export type SaveRequest = typeof SaveRequest.static

export const ExtendRequest = Type.Object(
  { scope, key, lockToken, lockSeconds: Type.Optional(lockSeconds) },
  { additionalProperties: false, $id: 'ExtendRequest' },
)

export const FetchQuery = Type.Object({ scope, key }, { additionalProperties: false })

export const RemoveQuery = Type.Object(
  { scope, key, lockToken: Type.Optional(lockToken) },
  { additionalProperties: false },
)
