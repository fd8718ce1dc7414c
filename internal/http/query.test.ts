import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseQuery, refuseQuery } from './query.ts'

const valuesOf = (url: string) => {
  const query = parseQuery(url)
  return query.kind === 'query' ? { ...query.values } : query.message
}

describe('a query string', () => {
  test.each([
    ['none', 'http://h/p', {}],
    ['an empty one', 'http://h/p?', {}],
    ['two parameters', 'http://h/p?scope=a&key=b', { scope: 'a', key: 'b' }],
    ['plus and percent for a space', 'http://h/p?a=x+y&b=x%20y&c=x%2By', { a: 'x y', b: 'x y', c: 'x+y' }],
    ['an encoded name', 'http://h/p?%6Bey=v', { key: 'v' }],
    ['no value', 'http://h/p?key', { key: '' }],
    ['an equals sign in the value', 'http://h/p?key=a=b', { key: 'a=b' }],
    ['a question mark in the value', 'http://h/p?key=a?b', { key: 'a?b' }],
    ['needless ampersands', 'http://h/p?&&key=a&', { key: 'a' }],
    [
      'names that objects have by birth',
      'http://h/p?toString=1&constructor=2',
      { toString: '1', constructor: '2' },
    ],
    ['four-byte letters', 'http://h/p?key=%F0%9F%98%80', { key: '😀' }],
  ])('with %s', (_case, url, expected) => {
    expect(valuesOf(url)).toEqual(expected)
  })

  test.each([
    ['a parameter that stands twice', 'a=1&a=1', 'twice'],
    ['one that stands twice by encoding', 'key=1&%6bey=2', 'twice'],
    ['a half escape', 'key=%4', 'UTF-8'],
    ['an escape that is no number', 'key=%zz', 'UTF-8'],
    ['bytes that are not UTF-8', 'key=%ff', 'UTF-8'],
    ['half of a surrogate pair', 'key=%ED%A0%80', 'UTF-8'],
    ['a name that is not UTF-8', '%c3=1', 'UTF-8'],
    ['more than 8192 characters', `key=${'a'.repeat(8189)}`, '8192'],
  ])('with %s is refused', (_case, query, text) => {
    expect(valuesOf(`http://h/p?${query}`)).toContain(text)
  })

  test('of 8192 characters is taken', () => {
    expect(valuesOf(`http://h/p?key=${'a'.repeat(8188)}`)).toEqual({ key: 'a'.repeat(8188) })
  })

  test('gives back whatever was encoded into it', () => {
    const text = fc.string({ unit: 'binary', maxLength: 20 })
    fc.assert(
      fc.property(
        fc.uniqueArray(text, { maxLength: 5 }),
        fc.array(text, { minLength: 5, maxLength: 5 }),
        (names, values) => {
          const pairs = names.map((name, index) => [name, values[index] ?? ''] as const)
          const url = `http://h/p?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`
          const query = parseQuery(url)
          expect(query.kind === 'query' && Object.entries(query.values).sort()).toEqual(
            pairs.map(([...pair]) => pair).sort(),
          )
        },
      ),
    )
  })
})

describe('a query that nobody reads', () => {
  const messageOf = (url: string) => refuseQuery(url)?.message

  test.each(['http://h/p', 'http://h/p?', 'http://h/p?&&'])(
    'is nothing to refuse when it is empty: %s',
    (url) => {
      expect(refuseQuery(url)).toBeUndefined()
    },
  )

  test('is refused by its first five names, cut and escaped', () => {
    expect(messageOf('http://h/p?a=1&b&c&d&e')).toEndWith('send "a", "b", "c", "d", "e" in the body')
    expect(messageOf('http://h/p?a&b&c&d&e&f=secret')).toEndWith('"e" and more in the body')
    expect(messageOf(`http://h/p?${'x'.repeat(65)}`)).toContain(`"${'x'.repeat(64)}…"`)
    expect(messageOf('http://h/p?a%0a%22')).toContain('"a\\n\\""')
  })

  test('is refused as what it is where it is none', () => {
    expect(messageOf('http://h/p?a=%ff')).toContain('UTF-8')
  })
})
