import { expect, test } from 'bun:test'
import { errorCodes, errorHelp } from '#internal/base/index.ts'
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

/** Texts and templates of the sources, as patterns of the texts that they make. */
async function madeTexts(): Promise<readonly RegExp[]> {
  const patterns: RegExp[] = []
  for await (const path of new Bun.Glob('internal/**/*.{ts,tsx}').scan('.')) {
    if (path.includes('.test.') || path.endsWith('error-help.ts')) continue
    const source = await Bun.file(path).text()
    for (const [, quoted, template] of source.matchAll(/'([^'\n]{12,})'|`([^`\n]{12,})`/g)) {
      const fixed = (quoted ?? template ?? '').split(/\$\{[^}]*\}/)
      if (fixed.join('').replaceAll(/\W/g, '').length < 6) continue
      patterns.push(new RegExp(`^${fixed.map((text) => RegExp.escape(text)).join('.+')}$`))
    }
  }
  return patterns
}

test('reference: the example of each error has a message that the code produces', async () => {
  const made = await madeTexts()
  const messages = errorPages().flatMap(([path, text]) => {
    const [, message] = /\n {2}"message": ("(?:[^"\\]|\\.)*")/.exec(text) ?? []
    return message === undefined ? [] : [[path, JSON.parse(message) as string] as const]
  })
  expect(messages).toHaveLength(errorCodes.length + 1)
  expect(messages.filter(([, message]) => !made.some((pattern) => pattern.test(message)))).toEqual([])
  // Codes whose messages always replace the default text of the catalogue.
  for (const code of [
    'invalid_request',
    'api_key_scope',
    'conflict',
    'body_too_large',
    'too_many_replays',
    'too_many_searches',
  ] as const)
    expect(errorHelp[code].message).toBeString()
})

test('reference: every metric is listed with its type and labels', () => {
  const metrics = declaredMetrics()
  const find = (name: string) => metrics.find((each) => each.name === name)
  expect(metrics.length).toBeGreaterThan(75)
  expect(find('latchkey_delivery_attempts_total')).toMatchObject({
    type: 'counter',
    labels: ['outcome', 'destination_kind'],
  })
  expect(find('latchkey_delivery_delay_seconds')).toMatchObject({ type: 'histogram', labels: [] })
  expect(find('latchkey_storage_expired_rows_total')).toMatchObject({ type: 'counter', labels: ['table'] })
  expect(metrics.filter(({ help }) => help.length < 5)).toEqual([])
})
