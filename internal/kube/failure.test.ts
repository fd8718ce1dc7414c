import { expect, test } from 'bun:test'
import { expectOk, KubeError, readFailure, readWatchError, unavailable } from './failure.ts'

const answer = (status: number, body: unknown = '', more = {}) =>
  readFailure({
    status,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    retryAfter: null,
    secret: false,
    ...more,
  })
const status = (code: number, reason: string, message = 'told', details = {}) => ({
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  code,
  reason,
  message,
  details,
})

test.each([
  [400, 'BadRequest', 'badRequest'],
  [401, 'Unauthorized', 'unauthorized'],
  [403, 'Forbidden', 'forbidden'],
  [404, 'NotFound', 'notFound'],
  [409, 'AlreadyExists', 'alreadyExists'],
  [409, 'Conflict', 'conflict'],
  [410, 'Expired', 'gone'],
  [410, 'Gone', 'gone'],
  [415, 'UnsupportedMediaType', 'badRequest'],
  [422, 'Invalid', 'invalid'],
  [429, 'TooManyRequests', 'tooManyRequests'],
  [500, 'InternalError', 'unavailable'],
  [503, 'ServiceUnavailable', 'unavailable'],
  [504, 'Timeout', 'unavailable'],
])('readFailure: status %d with reason %s becomes %s', (code, reason, kind) => {
  expect(answer(code, status(code, reason))).toMatchObject({ kind, status: code })
})

test.each([
  [302, 'unavailable'],
  [403, 'forbidden'],
  [404, 'notFound'],
  [408, 'unavailable'],
  [418, 'badRequest'],
  [502, 'unavailable'],
])(
  'readFailure: status %d with the HTML page of a proxy becomes %s, and the failure does not quote the page',
  (code, kind) => {
    const failure = answer(code, '<html>token=abc</html>')
    expect(failure).toMatchObject({ kind })
    expect(JSON.stringify(failure)).not.toContain('abc')
  },
)

test('readFailure: returns the names of the refused fields', () => {
  const causes = [
    { reason: 'FieldValueInvalid', message: 'x', field: 'spec.slug' },
    { message: 'no field' },
    7,
  ]
  expect(answer(422, status(422, 'Invalid', 'told', { causes })).fields).toEqual(['spec.slug'])
})

test('readFailure: leaves out the server’s message for requests with secrets', () => {
  const body = status(422, 'Invalid', 'Invalid value: "hunter2"')
  const failure = answer(422, body, { secret: true })
  expect(failure.message).toBe('invalid: Invalid')
})

test.each([
  ['a header', answer(429, '', { retryAfter: '7' }), 7000],
  ['the body', answer(429, status(429, 'TooManyRequests', '', { retryAfterSeconds: 2 })), 2000],
  ['a header above the maximum', answer(503, '', { retryAfter: '86400' }), 60_000],
  ['no header', answer(503), undefined],
  ['a date', answer(503, '', { retryAfter: 'Wed, 21 Oct 2026 07:28:00 GMT' }), undefined],
])('readFailure: returns the expected retry delay for %s', (_case, failure, ms) => {
  expect(failure.retryAfterMs).toBe(ms as never)
})

test('readWatchError: converts the error line of a watch to a failure', () => {
  expect(readWatchError(status(410, 'Expired'))).toMatchObject({ kind: 'gone', status: 410 })
  expect(readWatchError('garbage')).toMatchObject({ kind: 'unavailable', status: 500 })
})

test('expectOk: returns the value of a successful result, and throws a failure with the given prefix', () => {
  expect(expectOk('x', { kind: 'ok', value: 7 })).toBe(7)
  expect(() => expectOk('cannot read the lease', unavailable('ECONNREFUSED'))).toThrow(
    new KubeError('cannot read the lease', unavailable('ECONNREFUSED')),
  )
})
