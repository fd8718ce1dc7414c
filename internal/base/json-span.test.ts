import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { findElements, findMembers, hasRepeatedMember, isNestedTooDeep, jsonDepthMax } from './json-span.ts'

function valueOf(text: string, name: string): string | undefined {
  const members = findMembers(text)
  if (members.kind === 'repeated') return undefined
  const span = members.spans.get(name)
  return span && text.slice(span.start, span.end)
}

describe('a member keeps its received text', () => {
  test.each([
    ['a number beyond doubles', '{"body":820982911946154508}', '820982911946154508'],
    ['trailing zeros', '{"body": 1.10 ,"a":1}', '1.10'],
    ['spaces inside an object', '{ "body" : { "b" : 1 , "a" : [ 2 ] } , "x":1}', '{ "b" : 1 , "a" : [ 2 ] }'],
    ['quotes and brackets inside strings', '{"body":"a\\"}]{","x":{"body":1}}', '"a\\"}]{"'],
    ['a string that ends in backslashes', '{"x":"\\\\","body":"\\\\\\""}', '"\\\\\\""'],
    ['an escaped name', '{"b\\u006fdy":true}', 'true'],
    ['a value with a __proto__ member', '{"body":{"__proto__":1}}', '{"__proto__":1}'],
    ['null at the end', '{"a":[],"body":null}', 'null'],
    ['an array after an empty object', '{"a":{},"body":[]}', '[]'],
  ])('findMembers: returns the text as received for %s', (_case, text, expected) => {
    expect(valueOf(text, 'body')).toBe(expected)
  })

  test('findMembers: ignores nested members with the same name', () => {
    expect(valueOf('{"x":{"body":1}}', 'body')).toBeUndefined()
  })

  test('findMembers: reports a duplicate name, even if it is escaped', () => {
    expect(findMembers('{"body":1,"b\\u006fdy":2}')).toEqual({ kind: 'repeated', name: 'body' })
  })

  test('findMembers: text with 100 000 levels does not exhaust the stack', () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    expect(valueOf(`{"body":${deep}}`, 'body')).toBe(deep)
  })

  test('findMembers: finds every member of random JSON objects', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom(undefined, 2, '\t'),
        (value, indent) => {
          const text = JSON.stringify(value, null, indent)
          const members = findMembers(text)
          if (members.kind === 'repeated') throw new Error(`repeated ${members.name}`)
          const names = Object.keys(JSON.parse(text) as object)
          expect([...members.spans.keys()].sort()).toEqual(names.sort())
          for (const [name, span] of members.spans) {
            const spliced = JSON.parse(text.slice(span.start, span.end)) as unknown
            expect(spliced).toEqual((JSON.parse(text) as Record<string, unknown>)[name])
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})

test.each([
  ['no element in an empty array', '[]', []],
  ['no element in an array of white space', ' [ \n] ', []],
  ['a single element', '[1]', ['1']],
  ['scalars', '[1, "a,]" ,true,null]', ['1', '"a,]"', 'true', 'null']],
  ['nested elements', '[[1,[2]] , {"a":[3,"]"]},[]]', ['[1,[2]]', '{"a":[3,"]"]}', '[]']],
])('findElements: finds %s', (_name, text, elements) => {
  expect(findElements(text).map(({ start, end }) => text.slice(start, end))).toEqual(elements)
})

test('findElements: terminates for text that is not an array', () => {
  for (const text of ['', '[', '[}', '[,}', '[1', '["', '7', '[1}2]']) findElements(text)
})

test.each([
  ['no repeated name', '{"a":1,"b":{"a":2},"c":"a"}', false],
  ['no members', '{}', false],
  ['a repeated name', '{"a":1,"b":2,"a":1}', true],
  ['a repeated name that is escaped once', '{"a":1,"\\u0061":2}', true],
  ['a repeated __proto__', '{"__proto__":1,"__proto__":2}', true],
])('hasRepeatedMember: detects repeated names in an object with %s', (_case, text, expected) => {
  expect(hasRepeatedMember(text, JSON.parse(text) as object)).toBe(expected)
})

/** Arrays in arrays: so many levels. */
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

describe('nesting', () => {
  test.each([
    ['256 arrays', nested(256), false],
    ['257 arrays', nested(257), true],
    ['256 objects', `${'{"a":'.repeat(256)}1${'}'.repeat(256)}`, false],
    ['257 objects', `${'{"a":'.repeat(257)}1${'}'.repeat(257)}`, true],
    ['258 levels of alternating objects and arrays', `${'{"a":['.repeat(129)}${']}'.repeat(129)}`, true],
    ['257 nested arrays after many shallow ones', `[${'[],{},'.repeat(500)}${nested(256)}]`, true],
    ['many shallow arrays and objects', `[${'[],{},'.repeat(50_000)}0]`, false],
    ['brackets inside a string', `["${'['.repeat(1000)}"]`, false],
    ['brackets inside a string with escaped quotes', `["${'\\"['.repeat(1000)}"]`, false],
    ['brackets behind a string that ends in a backslash', `["\\\\",${nested(256)}]`, true],
    ['brackets without end', '['.repeat(100_000), true],
    ['a string without end', `["${'['.repeat(1000)}`, false],
    ['an empty text', '', false],
  ])('isNestedTooDeep: for %s returns %p', (_case, text, expected) => {
    expect(isNestedTooDeep(text)).toBe(expected)
  })

  test('isNestedTooDeep: returns true only above 256 levels, for random JSON', () => {
    const depthOf = (value: unknown): number =>
      typeof value === 'object' && value !== null
        ? 1 + Math.max(0, ...Object.values(value).map((each) => depthOf(each)))
        : 0
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.integer({ min: 250, max: 257 }), (inner, levels) => {
        const text = `${'['.repeat(levels)}${inner}${']'.repeat(levels)}`
        const depth = levels + depthOf(JSON.parse(inner))
        expect(isNestedTooDeep(text)).toBe(depth > jsonDepthMax)
      }),
    )
  })
})
