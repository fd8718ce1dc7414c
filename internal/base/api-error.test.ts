import { describe, expect, test } from 'bun:test'
import { apiError, errorCodes, errorEnvelope, statusOf } from './api-error.ts'

describe('every error of the catalogue', () => {
  test.each([...errorCodes])('errorEnvelope: the error %s has the envelope of the contract', (code) => {
    const envelope = errorEnvelope(apiError(code), 'r-1')
    expect(Object.keys(envelope)).toEqual(['message', 'error', 'statusCode', 'code', 'requestId'])
    expect(envelope).toMatchObject({ statusCode: statusOf(code), code, requestId: 'r-1' })
    expect(envelope.message.length).toBeGreaterThan(10)
    expect(envelope.error).toMatch(/^[A-Z][A-Za-z ]+$/)
  })
})

test.each([
  ['invalid_request', 400, 'Bad Request'],
  ['api_key_invalid', 403, 'Forbidden'],
  ['provider_unknown', 404, 'Not Found'],
  ['body_too_large', 413, 'Content Too Large'],
  ['fingerprint_mismatch', 422, 'Unprocessable Content'],
  ['limit_exceeded', 429, 'Too Many Requests'],
  ['internal', 500, 'Internal Server Error'],
  ['store_unavailable', 503, 'Service Unavailable'],
  ['queue_unavailable', 503, 'Service Unavailable'],
  ['loop_detected', 508, 'Loop Detected'],
] as const)('errorEnvelope: the error %s has status %d %s', (code, status, phrase) => {
  expect(errorEnvelope(apiError(code), 'r')).toMatchObject({ statusCode: status, error: phrase })
})

test('errorEnvelope: a specific message replaces the default message, and headers are not in the body', () => {
  const error = apiError('invalid_request', '"key" is required', { Connection: 'close' })
  expect(errorEnvelope(error, 'r').message).toBe('"key" is required')
  expect(error.headers).toEqual({ Connection: 'close' })
  expect(JSON.stringify(errorEnvelope(error, 'r'))).not.toContain('close')
})
