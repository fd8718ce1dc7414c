import { Type } from '@sinclair/typebox'

/** Checks of one batch. */
export const batchChecksMax = 100
/** Seconds a lock may be taken for at a time. */
export const lockSecondsMax = 900
/** Milliseconds a check may wait for a busy key. */
export const waitMsMax = 25_000

const positiveSeconds = (maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, description })

/**
 * Text that becomes part of a key or is compared: counted in code points, without control characters, and without what would
 * make one key of two: lone surrogates, which UTF-8 cannot say, and U+FFFD, which stands for bytes that were lost.
 */
function text(lengthMax: number, description: string) {
  return Type.RegExp(new RegExp(`^[^\\p{Cc}\\p{Cs}\\uFFFD]{1,${lengthMax}}$`, 'u'), { description })
}

const scope = text(128, 'Namespace of the key.')
const key = text(255, 'Idempotency key within the scope.')
const lockToken = Type.RegExp(/^[^]{1,128}$/u, {
  description: 'The token that the acquisition answered. Opaque.',
})
const ttlSeconds = positiveSeconds(
  2_147_483_647,
  'How long the record is kept. Default 86 400; at most what the platform and the tenant allow.',
)
const lockSeconds = positiveSeconds(
  lockSecondsMax,
  'How long the lock is held. Default 60; never longer than `ttlSeconds`.',
)

const headerNameCharsMax = 256
const headerValueCharsMax = 65_536
const headerName = new RegExp(`^[!#$%&'*+.^_\`|~0-9A-Za-z-]{1,${headerNameCharsMax}}$`)

/**
 * Headers of a saved response, as RFC 9110 has them (sections 5.1 and 5.5), so that none can become two when it is sent again. A
 * value may have any character but controls: what is not ASCII is obs-text, be it UTF-8 or bytes read as Latin-1. White space around
 * a value is kept as sent; recipients of HTTP drop it.
 */
const responseHeaders = Type.Unsafe<Record<string, string>>(
  // Not Type.Record: its pattern for names knows no line break, and would let the value behind one pass unchecked.
  Type.Object(
    {},
    {
      propertyNames: { pattern: headerName.source, maxLength: headerNameCharsMax },
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

/** Finds a header name that is not a token of RFC 9110 of 1 to 256 characters; TypeBox does not check `propertyNames`. */
export function findBadHeaderName(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.keys(headers).find((name) => !headerName.test(name))
}

const checkFields = {
  scope,
  key,
  ttlSeconds: Type.Optional(ttlSeconds),
  lockSeconds: Type.Optional(lockSeconds),
  attemptId: Type.Optional(
    text(
      128,
      'A name for this attempt. The same attempt asks again after a lost reply and gets its own lock.',
    ),
  ),
  fingerprint: Type.Optional(
    text(255, "A hash of the caller's request. Another one under the same key is refused with 422."),
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
          'How long to wait for a busy key. Default 0. A process lets 250 calls of a tenant wait at a time; one more is answered at once.',
      }),
    ),
  },
  { additionalProperties: false },
)
export type CheckRequest = typeof CheckRequest.static

/** One element of a batch: a check that does not wait. */
export const BatchCheck = Type.Object(checkFields, { additionalProperties: false })
export type BatchCheck = typeof BatchCheck.static

/** Body of POST /v1/record/batch. Each check is validated on its own, so that a bad one spoils no other. */
export const BatchRequest = Type.Object(
  { checks: Type.Array(Type.Unknown(), { minItems: 1, maxItems: batchChecksMax }) },
  { additionalProperties: false },
)
export type BatchRequest = typeof BatchRequest.static

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
      description: 'Body of the response being saved: any JSON value, kept as received.',
    }),
    ttlSeconds: Type.Optional(ttlSeconds),
    lockToken: Type.Optional(lockToken),
  },
  { additionalProperties: false },
)
export type SaveRequest = typeof SaveRequest.static

/** Body of POST /v1/record/extend. */
export const ExtendRequest = Type.Object(
  { scope, key, lockToken, lockSeconds: Type.Optional(lockSeconds) },
  { additionalProperties: false },
)
export type ExtendRequest = typeof ExtendRequest.static

/** Query of GET /v1/record. */
export const FetchQuery = Type.Object({ scope, key }, { additionalProperties: false })
export type FetchQuery = typeof FetchQuery.static

/** Query of DELETE /v1/record. */
export const RemoveQuery = Type.Object(
  { scope, key, lockToken: Type.Optional(lockToken) },
  { additionalProperties: false },
)
export type RemoveQuery = typeof RemoveQuery.static
