import { describe, expect, test } from 'bun:test'
import { parseRedirection, parseSlotRanges, slotOf } from './slot-map.ts'

const asked = { host: 'asked', port: 7000 }

describe('slotOf', () => {
  test.each([
    ['returns the check value of the CRC specification', '123456789', 0x31c3],
    ['returns 0 for an empty key', '', 0],
    ['hashes only the tag', '{user1000}.following', slotOf('user1000')],
    ['hashes only the first of two tags', 'foo{bar}{zap}', slotOf('bar')],
    ['ends the tag at the first closing brace', 'foo{{bar}}zap', slotOf('{bar')],
  ])('slotOf: %s', (_name, key, expected) => {
    expect(slotOf(key)).toBe(expected)
  })

  test('slotOf: hashes the whole key if its tag is empty or a brace is not closed', () => {
    expect(slotOf('foo{}{bar}')).not.toBe(slotOf('bar'))
    expect(slotOf('foo{bar')).not.toBe(slotOf('bar'))
  })
})

describe('parseSlotRanges', () => {
  test.each([
    [
      'returns the address of the reply',
      ['10.0.0.1', 6379, 'id'],
      [{ from: 0, to: 9, master: { host: '10.0.0.1', port: 6379 } }],
    ],
    [
      'replaces an empty address by the address of the asked node',
      ['', 6379],
      [{ from: 0, to: 9, master: { host: 'asked', port: 6379 } }],
    ],
    [
      'replaces null by the address of the asked node',
      [null, 6379],
      [{ from: 0, to: 9, master: { host: 'asked', port: 6379 } }],
    ],
    ['ignores an unknown address', ['?', 6379], []],
    ['ignores an address without port', ['10.0.0.1', 0], []],
  ])('parseSlotRanges: %s', (_name, master, expected) => {
    expect(parseSlotRanges([[0, 9, master]], asked)).toEqual(expected)
  })

  test('parseSlotRanges: returns no ranges for a reply in another format', () => {
    for (const reply of [undefined, 'OK', [], [[0, 1]], ['x']])
      expect(parseSlotRanges(reply, asked)).toEqual([])
  })
})

describe('parseRedirection', () => {
  test.each([
    [
      'parses MOVED',
      'MOVED 3999 127.0.0.1:6381',
      { kind: 'moved', slot: 3999, node: { host: '127.0.0.1', port: 6381 } },
    ],
    [
      'parses ASK',
      'ASK 3999 h.example:6381',
      { kind: 'ask', slot: 3999, node: { host: 'h.example', port: 6381 } },
    ],
    [
      'parses an IPv6 address',
      'MOVED 1 ::1:6381',
      { kind: 'moved', slot: 1, node: { host: '::1', port: 6381 } },
    ],
    [
      'replaces an empty host by the host of the asked node',
      'MOVED 1 :6381',
      { kind: 'moved', slot: 1, node: { host: 'asked', port: 6381 } },
    ],
    ['returns undefined for an unknown host', 'MOVED 1 ?:6381', undefined],
    ['returns undefined for another error reply', 'CLUSTERDOWN The cluster is down', undefined],
  ] as const)('parseRedirection: %s', (_name, text, expected) => {
    expect(parseRedirection(text, asked)).toEqual(expected)
  })
})
