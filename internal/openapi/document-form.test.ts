import { describe, expect, test } from 'bun:test'
import { RE2JS } from 're2js'
import { startTestApi, testLimits } from '#test/support/api.ts'
import { differingTexts, keywordsOf, patternsOf } from '#test/support/documents/document-patterns.ts'
import { internalDocument } from './internal.ts'
import { publicContract } from './public.ts'

/** Returns the objects with several fields in a schema. */
function objectsIn(value: unknown): readonly object[] {
  if (Array.isArray(value)) return value.flatMap(objectsIn)
  if (typeof value !== 'object' || value === null) return []
  const { properties } = value as { properties?: object }
  const isObject = Object.keys(properties ?? {}).length > 2
  return [...(isObject ? [value] : []), ...Object.values(value).flatMap(objectsIn)]
}

const documents = [
  { title: 'public', document: publicContract(testLimits) },
  { title: 'internal', document: internalDocument() },
]

describe('form of the documents', () => {
  test.each(documents)(
    '$title document: every schema has a title or component name of its own',
    ({ document }) => {
      const words = [
        ...keywordsOf(document.components.schemas, 'title'),
        ...Object.keys(document.components.schemas),
      ]
      // Builds class names as code generators do from titles.
      const names = words.map((word) =>
        String(word)
          .replaceAll(/[^A-Za-z0-9]/g, '')
          .toLowerCase(),
      )
      expect(names.toSorted()).toEqual([...new Set(names)].toSorted())
    },
  )

  test.each(documents)(
    '$title document: only components have a title, from which generators make class names',
    ({ document }) => {
      const { components: _components, info: _info, ...inline } = document
      expect(keywordsOf(inline, 'title')).toEqual([])
    },
  )

  test.each(documents)(
    '$title document: every object lists its property names or states that any name may occur',
    ({ document }) => {
      const bare = (value: unknown): readonly unknown[] => {
        if (Array.isArray(value)) return value.flatMap(bare)
        if (typeof value !== 'object' || value === null) return []
        const isBare =
          'type' in value &&
          value.type === 'object' &&
          !('properties' in value || 'additionalProperties' in value)
        return isBare ? [value] : Object.values(value).flatMap(bare)
      }
      expect(bare(document.paths)).toEqual([])
      expect(bare(document.components.schemas)).toEqual([])
    },
  )

  test.each(documents)('$title document: the variants of a oneOf are components', ({ document }) => {
    const variants = Object.values(document.components.schemas).flatMap(
      ({ oneOf = [] }) => oneOf as readonly object[],
    )
    expect(variants.length).toBeGreaterThan(0)
    expect(variants.filter((variant) => !('$ref' in variant))).toEqual([])
  })

  test.each(documents)(
    '$title document: an object with several fields is defined once, as a component',
    ({ document }) => {
      const inline = Object.values(document.components.schemas).flatMap((schema) =>
        Object.values(schema).flatMap(objectsIn),
      )
      const texts = inline.map((each) => JSON.stringify(each))
      expect(texts.filter((text, index) => texts.indexOf(text) !== index)).toEqual([])
    },
  )

  test.each(documents)('$title document: header parameters are strings or integers', ({ document }) => {
    const parameters = [
      ...Object.values(document.components.parameters),
      ...Object.values(document.paths).flatMap((methods) =>
        Object.values(methods).flatMap(({ parameters = [] }) => parameters),
      ),
    ]
    // Allows only strings and integers, since Python generators drop an operation with a header of another type.
    for (const parameter of parameters)
      if ('in' in parameter && parameter.in === 'header') {
        expect(['string', 'integer']).toContain(String(parameter.schema['type']))
        expect([undefined, 'uri']).toContain(parameter.schema['format'] as string | undefined)
      }
  })

  // Tests the public document only, since descriptions of the internal document always have a sentence about the required right.
  test('public document: every operation has a description', () => {
    const { paths } = publicContract(testLimits)
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
    const bare = operations.filter(({ description = '' }) => description.length <= 30)
    expect(bare.map(({ operationId }) => operationId)).toEqual([])
  })

  test.each(documents)('$title document: names the host that serves it as its server', ({ document }) => {
    expect(document.servers.map(({ url }) => url)).toEqual(['/'])
  })

  test('public document: names the configured public URL as its first server', () => {
    const { servers } = publicContract({ ...testLimits, publicUrl: 'https://hooks.example.com/' })
    expect(servers.map(({ url }) => url)).toEqual(['https://hooks.example.com', '/'])
  })
})

describe('patterns of the documents', () => {
  test.each(documents)('$title document: contains at least one pattern', ({ document }) => {
    expect(patternsOf(document).length).toBeGreaterThan(10)
  })

  test.each(
    documents.flatMap(({ title, document }) => patternsOf(document).map((pattern) => ({ title, pattern }))),
  )(
    '$title document: ECMA-262 with and without u, and RE2, match the same texts with $pattern',
    ({ pattern }) => {
      const unicode = new RegExp(pattern, 'u')
      expect(differingTexts(pattern, (text) => unicode.test(text))).toEqual([])
      const re2 = RE2JS.compile(pattern)
      expect(differingTexts(pattern, (text) => re2.matcher(text).find())).toEqual([])
    },
  )

  test.each(['^\\p{Lu}$', '^.$'])('pattern comparison: finds that the flag u changes %s', (pattern) => {
    const unicode = new RegExp(pattern, 'u')
    expect(differingTexts(pattern, (text) => unicode.test(text))).not.toEqual([])
  })

  test('pattern comparison: finds that RE2 reads \\s as ASCII', () => {
    const re2 = RE2JS.compile('^\\S+$')
    expect(differingTexts('^\\S+$', (text) => re2.matcher(text).find())).not.toEqual([])
  })

  test.each(['^[^\\u0000]$', '^(?=a)', '^[^]$'])('pattern comparison: RE2 refuses %s', (pattern) => {
    expect(() => RE2JS.compile(pattern)).toThrow()
  })
})

test('public contract: a request line over 16 KiB gets the documented 431 response without a body', async () => {
  const api = await startTestApi()
  try {
    const answer = await api.call('GET', `/v1/record?scope=${'x'.repeat(17 * 1024)}`)
    expect([answer.status, answer.text]).toEqual([431, ''])
    for (const { document } of documents)
      expect(document.components.responses.HeadTooLong.description).toContain('431')
  } finally {
    await api.close()
  }
})
