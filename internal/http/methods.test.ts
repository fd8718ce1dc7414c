import { expect, test } from 'bun:test'
import { allowedMethods } from './methods.ts'

const routes = [
  { method: 'POST', path: '/v1/record' },
  { method: 'GET', path: '/v1/record' },
  { method: 'POST', path: '/v1/record/extend' },
  { method: 'POST', path: '/v1/t/:tenantSlug/webhooks/:provider' },
]

test.each([
  ['all methods of a path', '/v1/record', ['POST', 'GET', 'HEAD']],
  ['a path below another', '/v1/record/extend', ['POST']],
  ['parameters', '/v1/t/shop/webhooks/card', ['POST']],
  ['a slash at the end', '/v1/record/', []],
  ['an empty parameter at the end', '/v1/t/shop/webhooks/', []],
  ['an empty parameter', '/v1/t//webhooks/card', []],
  ['a longer path', '/v1/record/extend/more', []],
  ['a shorter path', '/v1', []],
  ['another letter case', '/V1/record', []],
  ['a pattern taken by its word', '/v1/t/:tenantSlug/webhooks', []],
  ['the root', '/', []],
])('%s', (_case, pathname, methods) => {
  expect(allowedMethods(routes, pathname)).toEqual(methods)
})
