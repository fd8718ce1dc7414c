import { expect, test } from 'bun:test'
import { fromRecord, keptHeaderNames } from './stored-response.ts'

const kept = keptHeaderNames()
const text = (body: Uint8Array | undefined) => body && new TextDecoder().decode(body)

test('stored response: a record of another program is replayed as JSON, with the kept headers only', () => {
  const headers = { Location: '/1', 'Set-Cookie': 'a=1', 'Content-Length': '3' }
  const { status, headers: sent, body } = fromRecord({ status: 201, headers, body: { id: 1 } }, kept)
  expect({ status, sent, body: text(body) }).toEqual({
    status: 201,
    sent: { 'content-type': 'application/json', location: '/1' },
    body: '{"id":1}',
  })
})

test('stored response: a record of another program with status 204 has no body', () => {
  expect(fromRecord({ status: 204, headers: {}, body: null }, kept)).toEqual({
    status: 204,
    headers: {},
    body: new Uint8Array(),
  })
})

test('stored response: the header `set-cookie` cannot be kept', () => {
  expect(() => keptHeaderNames(['Set-Cookie'])).toThrow('set-cookie')
})
