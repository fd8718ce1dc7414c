import { expect, test } from 'bun:test'
import { parseForm } from './form.ts'

const type = 'application/x-www-form-urlencoded'
const parse = (body: string, contentType = type) =>
  parseForm(new Request('http://localhost/', { headers: { 'Content-Type': contentType } }), Buffer.from(body))

test('fields are decoded and trimmed', () => {
  expect({ ...parse('a=1+2%26&b=+x+&c=') }).toEqual({ a: '1 2&', b: 'x', c: '' })
  expect({ ...parse('__proto__=1', `${type}; charset=UTF-8`) }).toEqual(JSON.parse('{"__proto__":"1"}'))
})

test.each([
  ['another type', '{"a":1}', 'application/json'],
  ['no type', 'a=1', ''],
  ['a field twice', 'a=1&a=2', type],
  ['bytes that are no UTF-8', 'a=%ff', type],
  ['too many fields', Array.from({ length: 101 }, (_none, nth) => `f${nth}=1`).join('&'), type],
])('%s is no form of ours', (_case, body, contentType) => {
  expect(parse(body, contentType)).toBeUndefined()
})
