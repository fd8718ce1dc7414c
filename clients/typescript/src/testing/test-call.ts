import type { TestRecord } from './records.ts'

interface Address {
  readonly scope: string
  readonly key: string
}

/** Valid call of the service. An empty text stands for an absent value. */
export type RecordCall = Address &
  (
    | {
        readonly operation: 'acquire'
        readonly ttlSeconds: number | undefined
        readonly lockSeconds: number
        readonly waitMs: number
        readonly attemptId: string
        readonly fingerprint: string
      }
    | {
        readonly operation: 'save'
        readonly ttlSeconds: number | undefined
        readonly lockToken: string
        readonly record: TestRecord
      }
    | { readonly operation: 'extend'; readonly lockToken: string; readonly lockSeconds: number | undefined }
    | { readonly operation: 'release' | 'remove'; readonly lockToken: string }
    | { readonly operation: 'fetch' }
  )

interface Bounds {
  readonly apiKey: string
  readonly recordBodyBytesMax: number
  readonly recordTtlSecondsMax: number
}

const phrases: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  409: 'Conflict',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}
const defaultLockSeconds = 60
const lockSecondsMax = 900
const waitMsMax = 25_000
const depthMax = 256
/** Per operation: method, path, optional fields, and fields that are required in addition to scope and key. */
const routes = {
  acquire: ['POST', '/v1/record', ['ttlSeconds', 'lockSeconds', 'attemptId', 'fingerprint', 'waitMs'], []],
  save: ['PUT', '/v1/record', ['headers', 'ttlSeconds', 'lockToken'], ['status', 'body']],
  extend: ['POST', '/v1/record/extend', ['lockSeconds'], ['lockToken']],
  fetch: ['GET', '/v1/record', [], []],
  remove: ['DELETE', '/v1/record', ['lockToken'], []],
} as const

/** Returns the response of an error, with the envelope of the service. */
export function refusal(status: number, code: string, message: string, retryAfterSeconds?: number): Response {
  const error = phrases[status] ?? 'Error'
  const body = { message, error, statusCode: status, code, requestId: crypto.randomUUID() }
  const headers = retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }
  return Response.json(body, { status, headers })
}

/** Parses a request, or returns the response that refuses it. */
export async function parseCall(request: Request, bounds: Bounds): Promise<RecordCall | Response> {
  const { pathname, searchParams } = new URL(request.url)
  const route = Object.entries(routes).find(
    ([, [method, path]]) => method === request.method && path === pathname,
  )
  if (!route)
    return refusal(404, 'route_unknown', 'This port has no such route: check the method and the path')
  if (request.headers.get('authorization') !== `Bearer ${bounds.apiKey}`)
    return refusal(
      403,
      'api_key_invalid',
      'The API key is missing, unknown or expired: send a valid one as "Authorization: Bearer lk_…"',
    )
  const hasBody = request.method === 'POST' || request.method === 'PUT'
  const fields = hasBody ? parseObject(await request.text()) : Object.fromEntries(searchParams)
  if (typeof fields === 'string') return invalid(fields)
  const [operation, [, , optional, required]] = route as [keyof typeof routes, (typeof routes)['acquire']]
  const known: readonly string[] = ['scope', 'key', ...required, ...optional]
  const odd = Object.keys(fields).find((name) => !known.includes(name))
  if (odd !== undefined) return invalid(`"${odd}" is not a field of this call`)
  const missing = ['scope', 'key', ...required].find((name) => !(name in fields))
  if (missing !== undefined) return invalid(`"${missing}" is required`)
  const problem = findProblem(fields, bounds)
  return problem === undefined ? callOf(operation, fields) : invalid(problem)
}

function invalid(message: string): Response {
  return refusal(400, 'invalid_request', message)
}

type Fields = Readonly<Record<string, unknown>>

/** Returns the fields of a JSON object, or the text of an error. */
function parseObject(text: string): Fields | string {
  if (depthOf(text) > depthMax) return `The body must not be nested deeper than ${depthMax} levels`
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Fields)
      : 'The body must be a JSON object'
  } catch {
    return 'The body must be JSON'
  }
}

/** Returns the nesting depth of a JSON text, so that a text that nests too deep is not parsed. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  for (const [found] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (found === '{' || found === '[') depth += 1
    else if (found === '}' || found === ']') depth -= 1
    deepest = Math.max(deepest, depth)
  }
  return deepest
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const headerValue = /^[^\u0000-\u0008\u000a-\u001f\u007f\p{Cs}]{0,65536}$/u

/** Returns the problem with the fields of a call, or undefined. */
function findProblem(
  fields: Fields,
  { recordBodyBytesMax, recordTtlSecondsMax }: Bounds,
): string | undefined {
  const { headers, body } = fields
  const numbers = [
    ['ttlSeconds', 1, recordTtlSecondsMax],
    ['lockSeconds', 1, lockSecondsMax],
    ['waitMs', 0, waitMsMax],
    ['status', 100, 599],
  ] as const
  for (const [name, least, most] of numbers) {
    const value = fields[name]
    if (value !== undefined && !(Number.isInteger(value) && Number(value) >= least && Number(value) <= most))
      return `"${name}" must be a whole number from ${least} to ${most}`
  }
  const texts = [
    ['scope', 128, '\\p{Cc}\\p{Cs}\\uFFFD'],
    ['key', 255, '\\p{Cc}\\p{Cs}\\uFFFD'],
    ['attemptId', 128, '\\p{Cc}\\p{Cs}\\uFFFD'],
    ['fingerprint', 255, '\\p{Cc}\\p{Cs}\\uFFFD'],
    ['lockToken', 128, ''],
  ] as const
  for (const [name, charsMax, refused] of texts) {
    const value = fields[name]
    const form = new RegExp(`^[^${refused}]{1,${charsMax}}$`, 'u')
    if (value !== undefined && !(typeof value === 'string' && form.test(value)))
      return `"${name}" must be a string of 1 to ${charsMax} characters`
  }
  if (headers !== undefined && !isHeaders(headers)) return '"headers" must be names and values of HTTP fields'
  if (body !== undefined && new TextEncoder().encode(JSON.stringify(body)).length > recordBodyBytesMax)
    return `"body" must not be longer than ${recordBodyBytesMax} bytes of JSON`
  return undefined
}

function isHeaders(value: unknown): value is Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.entries(value).every(
    ([name, text]) => headerName.test(name) && typeof text === 'string' && headerValue.test(text),
  )
}

function callOf(operation: keyof typeof routes, fields: Fields): RecordCall {
  const text = (name: string) => (fields[name] as string | undefined) ?? ''
  const number = (name: string) => fields[name] as number | undefined
  const address = { scope: text('scope'), key: text('key') }
  const lockToken = text('lockToken')
  switch (operation) {
    case 'acquire': {
      const lockSeconds = number('lockSeconds') ?? defaultLockSeconds
      const asked = { attemptId: text('attemptId'), fingerprint: text('fingerprint'), lockSeconds }
      return {
        ...address,
        ...asked,
        operation,
        ttlSeconds: number('ttlSeconds'),
        waitMs: number('waitMs') ?? 0,
      }
    }
    case 'save': {
      const headers = (fields['headers'] ?? {}) as Readonly<Record<string, string>>
      const record = { status: number('status') ?? 0, headers, body: fields['body'] }
      return { ...address, operation, lockToken, record, ttlSeconds: number('ttlSeconds') }
    }
    case 'extend':
      return { ...address, operation, lockToken, lockSeconds: number('lockSeconds') }
    case 'fetch':
      return { ...address, operation }
    case 'remove':
      return { ...address, operation: lockToken === '' ? 'remove' : 'release', lockToken }
    default:
      return operation satisfies never
  }
}
