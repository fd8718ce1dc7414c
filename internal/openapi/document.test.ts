import { expect, test } from 'bun:test'
import { testLimits } from '#test/support/api.ts'
import { DocumentBuilder } from './document.ts'

test('document builder: marks an operation as deprecated only if the route says so', () => {
  const operation = { id: 'read', tag: 'things', summary: 'Things', answers: {}, errors: [] }
  const paths = new DocumentBuilder([], testLimits).pathsOf([
    { method: 'GET', path: '/v1/old', operation: { ...operation, deprecated: true } },
    { method: 'GET', path: '/v1/new', operation },
  ])
  expect(paths['/v1/old']?.['get']).toHaveProperty('deprecated', true)
  expect(paths['/v1/new']?.['get']).not.toHaveProperty('deprecated')
})
