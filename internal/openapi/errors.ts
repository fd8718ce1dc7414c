import { type ErrorCode, errorCodes, errorEnvelope, statusOf } from '#internal/base/index.ts'
import { type Examples, jsonAnswer, type ResponseObject, schemaRef } from './openapi.ts'

const descriptions: Readonly<Record<number, string>> = {
  400: 'The request is not valid.',
  403: 'The API key is missing, unknown, ended, or lacks the scope; or the tenant is suspended.',
  404: 'There is nothing at this path.',
  405: 'This path does not take this method.',
  409: 'The lock or the record belongs to somebody else by now. Nothing was changed.',
  413: 'The body is too long. It was not read to its end.',
  422: 'The scope and key were used with another fingerprint.',
  429: 'A usage limit is exceeded.',
  500: 'An unexpected error of ours.',
  503: 'The store, or this process, cannot answer now. Nothing is known about the key: ask again.',
  508: 'The event came back to us too often.',
}

const headers: Readonly<Record<number, readonly string[]>> = {
  401: ['WWW-Authenticate'],
  405: ['Allow'],
  429: ['Retry-After', 'RateLimit', 'RateLimit-Policy'],
  503: ['Retry-After'],
}

/** The error answers of an operation, by status, each with an example for every code that the operation can give. */
export function errorAnswers(codes: readonly ErrorCode[]): Readonly<Record<string, ResponseObject>> {
  const statuses = [...new Set(codes.map(statusOf))].sort((one, other) => one - other)
  return Object.fromEntries(
    statuses.map((status) => {
      const examples = Object.fromEntries(codes.filter((code) => statusOf(code) === status).map(exampleOf))
      return [
        String(status),
        jsonAnswer(descriptions[status] ?? '', schemaRef('Error'), examples, headers[status]),
      ]
    }),
  )
}

function exampleOf(code: ErrorCode): [string, Examples[string]] {
  return [code, { value: errorEnvelope({ kind: 'error', code }, 'req-7f3a') }]
}

/** Codes that only the internal contract gives. */
const internalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'unauthenticated',
  'forbidden',
  'not_found',
  'conflict',
  'too_many',
  'unavailable',
])

/** The envelope of contract section 2.6, with `code` and `requestId` beside it, for an API that gives these codes. */
export function errorSchemaOf(codes: readonly ErrorCode[]) {
  return {
    type: 'object',
    required: ['message', 'error', 'statusCode', 'code', 'requestId'],
    properties: {
      message: { type: 'string', description: 'What is wrong and what to do next.' },
      error: { type: 'string', description: 'Reason phrase of the status (RFC 9110).' },
      statusCode: { type: 'integer', description: 'The HTTP status.' },
      code: { type: 'string', enum: codes, description: 'Stable name of the error.' },
      requestId: { type: 'string', description: 'Name of this request in our logs.' },
    },
  }
}

/** The envelope of the public contract. */
export const errorSchema = errorSchemaOf(errorCodes.filter((code) => !internalCodes.has(code)))
