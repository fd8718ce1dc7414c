import { expect, test } from 'bun:test'
import { errorCodes } from '#internal/base/index.ts'
import { internalDocument } from '#internal/openapi/index.ts'
import { apiPages } from './api-pages.ts'
import { errorPages } from './error-pages.ts'
import { declaredMetrics } from './metrics-page.ts'

const pageBytesMax = 100_000

test('reference: every operation of the internal API has a section with its path', () => {
  const text = apiPages()
    .filter(([path]) => path.startsWith('docs/reference/internal-api/'))
    .map(([, page]) => page)
    .join('\n')
  const operations = Object.entries(internalDocument().paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => ({
      id: operationId,
      line: `${method.toUpperCase()} ${path}`,
    })),
  )
  expect(operations.length).toBeGreaterThan(30)
  expect(operations.filter(({ id, line }) => !text.includes(`## ${id}\n\n\`\`\`http\n${line}\n`))).toEqual([])
})

test('reference: every error code has a page, and no page of an API is longer than 100 KB', () => {
  expect(errorPages()).toHaveLength(errorCodes.length + 1)
  expect(
    apiPages()
      .filter(([, text]) => text.length > pageBytesMax)
      .map(([path]) => path),
  ).toEqual([])
})

test('reference: metrics have their type and labels', () => {
  const metrics = declaredMetrics()
  const find = (name: string) => metrics.find((each) => each.name === name)
  expect(metrics.length).toBeGreaterThan(75)
  expect(find('latchkey_delivery_attempts_total')).toMatchObject({ type: 'counter', labels: ['outcome'] })
  expect(find('latchkey_delivery_delay_seconds')).toMatchObject({ type: 'histogram', labels: [] })
  expect(find('latchkey_storage_expired_rows_total')).toMatchObject({ type: 'counter', labels: ['table'] })
  expect(metrics.filter(({ help }) => help.length < 5)).toEqual([])
})
