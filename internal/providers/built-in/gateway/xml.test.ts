import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readXml } from './xml.ts'

describe('XML parsing', () => {
  test('readXml: reads attributes and keeps the order of elements', () => {
    const root = readXml(
      '<?xml version="1.0"?>\n<a b="1" c=\'2 "\' >\n <d/>\n <e type="x">f</e >\n <d></d>\n</a>\n',
    )
    expect(root?.name).toBe('a')
    expect([...(root?.attributes ?? [])]).toEqual([
      ['b', '1'],
      ['c', '2 "'],
    ])
    expect(root?.children.map(({ name, text }) => [name, text])).toEqual([
      ['d', ''],
      ['e', 'f'],
      ['d', ''],
    ])
    expect(root?.text).toBe('')
  })

  test.each([
    ['&amp;&lt;&gt;&quot;&apos;', '&<>"\''],
    ['&#65;&#x42;&#x1F381;', 'AB🎁'],
    ['&amp;lt;', '&lt;'],
    [' a\n b ', ' a\n b '],
    ['"]]>"', '"]]>"'],
  ])('readXml: reads text %j as %j', (raw, text) => {
    expect(readXml(`<a>${raw}</a>`)?.text).toBe(text)
  })

  test('readXml: reads 64 levels of nested elements and refuses 65 levels', () => {
    const nested = (levels: number) => readXml('<a>'.repeat(levels) + '</a>'.repeat(levels))
    expect(nested(64)?.name).toBe('a')
    expect(nested(65)).toBeUndefined()
    expect(readXml(`<r>${'<a/>'.repeat(19_999)}</r>`)?.children).toHaveLength(19_999)
    expect(readXml(`<r>${'<a/>'.repeat(20_000)}</r>`)).toBeUndefined()
  })
})

test.each([
  ['an empty text', ''],
  ['text without an element', 'a'],
  ['an end tag alone', '</a>'],
  ['an element without an end tag', '<a>'],
  ['crossed end tags', '<a><b></a></b>'],
  ['two roots', '<a/><b/>'],
  ['text beside the root', '<a/>b'],
  ['text beside elements', '<a>b<c/></a>'],
  ['an end tag with attributes', '<a></a b="1">'],
  ['an empty end tag', '<a></a/>'],
  ['a comment', '<a><!-- b --></a>'],
  ['CDATA', '<a><![CDATA[b]]></a>'],
  ['a processing instruction', '<a><?b?></a>'],
  ['two declarations', '<?xml version="1.0"?><?xml version="1.0"?><a/>'],
  ['a document type', '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'],
  ['an undefined entity', '<a>&b;</a>'],
  ['an unescaped ampersand', '<a>b & c</a>'],
  ['a reference to NUL', '<a>&#0;</a>'],
  ['half a surrogate pair', '<a>&#xD800;</a>'],
  ['a reference beyond Unicode', '<a>&#x110000;</a>'],
  ['an attribute without quotes', '<a b=c/>'],
  ['a name with a space', '< a/>'],
  ['17 attributes', `<a${' b="1"'.repeat(17)}/>`],
  ['JSON', '{"a":"b"}'],
])('readXml: refuses %s', (_what, text) => {
  expect(readXml(text)).toBeUndefined()
})

test('readXml: random input never throws and always terminates', () => {
  const pieces = fc.constantFrom(
    '<a',
    '>',
    '</a>',
    ' b="',
    '"',
    '&#',
    '&amp;',
    ';',
    '/',
    '<',
    ' ',
    '=',
    'x',
    '<?xml ',
    '?>',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 5 }))), (parts) => {
      const root = readXml(parts.join(''))
      if (root) expect(root.name).not.toBe('')
    }),
    { numRuns: 1000, seed: 7 },
  )
  for (const text of [
    ' '.repeat(500_000),
    '<a '.repeat(100_000),
    `<a ${'b="1" '.repeat(100_000)}`,
    '&'.repeat(500_000),
  ]) {
    const startedMs = performance.now()
    for (const xml of [text, `<a>${text}</a>`, `<a ${text}`, `<a ${text}>`]) readXml(xml)
    expect(performance.now() - startedMs).toBeLessThan(2000)
  }
})
