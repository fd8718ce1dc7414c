import { expect, test } from 'bun:test'
import { sinkAddress } from './tenants.ts'

test.each([
  ['http://sink.localhost/flaky/x?a=1', 'http://127.0.0.1:8182/flaky/x?a=1'],
  ['http://sink.localhost:9999/', 'http://127.0.0.1:8182/'],
  ['http://127.0.0.1:8082/', 'http://127.0.0.1:8082/'],
  ['https://sink.localhost/', 'https://sink.localhost/'],
  ['http://sink.localhost.example/', 'http://sink.localhost.example/'],
])('sink address: the callback URL %s becomes %s', (url, expected) => {
  expect(sinkAddress('http://127.0.0.1:8182/')(url)).toBe(expected)
})
