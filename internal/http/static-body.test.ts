import { expect, test } from 'bun:test'
import { acceptsGzip, staticAnswer, staticBody } from './static-body.ts'

test.each([
  ['gzip, deflate, br', true],
  ['GZIP;q=0.5', true],
  ['gzip;q=0', false],
  ['gzip;q=0.00, br', false],
  ['br', false],
  [null, false],
])('acceptsGzip: for the header Accept-Encoding %p, the result is %p', (header, expected) => {
  expect(acceptsGzip(header)).toBe(expected)
})

test('staticAnswer: the body is compressed for callers that accept gzip, and plain for others', () => {
  const answerTo = (encoding: string) => {
    const request = new Request('http://localhost/', { headers: { 'accept-encoding': encoding } })
    return staticAnswer(staticBody('{"a":1}'), request, { headers: { 'X-A': '1' }, outcome: 'a' })
  }
  expect(Buffer.from(answerTo('identity').body).toString()).toBe('{"a":1}')
  expect(answerTo('identity').headers).toEqual({ 'X-A': '1', Vary: 'Accept-Encoding' })
  expect(Buffer.from(Bun.gunzipSync(answerTo('gzip').body)).toString()).toBe('{"a":1}')
  expect(answerTo('gzip').headers).toMatchObject({ 'Content-Encoding': 'gzip' })
})
