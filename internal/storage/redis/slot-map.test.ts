import { describe, expect, test } from 'bun:test'
import { parseRedirection, parseSlotRanges, slotOf } from './slot-map.ts'

const asked = { host: 'asked', port: 7000 }

describe('slotOf', () => {
  test.each([
    ['the check value of the CRC', '123456789', 0x31c3],
    ['nothing', '', 0],
    ['the tag alone', '{user1000}.following', slotOf('user1000')],
    ['the first tag alone', 'foo{bar}{zap}', slotOf('bar')],
    ['up to the first closing brace', 'foo{{bar}}zap', slotOf('{bar')],
  ])('slotOf: %s', (_name, key, expected) => {
    expect(slotOf(key)).toBe(expected)
  })

  test('slotOf: ignores an empty tag and an unclosed brace', () => {
    expect(slotOf('foo{}{bar}')).not.toBe(slotOf('bar'))
    expect(slotOf('foo{bar')).not.toBe(slotOf('bar'))
  })
})

describe('parseSlotRanges', () => {
  test.each([
    ['an address', ['10.0.0.1', 6379, 'id'], [{ from: 0, to: 9, master: { host: '10.0.0.1', port: 6379 } }]],
    [
      'an empty address is that of the asked node',
      ['', 6379],
      [{ from: 0, to: 9, master: { host: 'asked', port: 6379 } }],
    ],
    [
      'null is the address of the asked node',
      [null, 6379],
      [{ from: 0, to: 9, master: { host: 'asked', port: 6379 } }],
    ],
    ['an unknown address is ignored', ['?', 6379], []],
    ['no port', ['10.0.0.1', 0], []],
  ])('parseSlotRanges: %s', (_name, master, expected) => {
    expect(parseSlotRanges([[0, 9, master]], asked)).toEqual(expected)
  })

  test('parseSlotRanges: returns no ranges for another reply', () => {
    for (const reply of [undefined, 'OK', [], [[0, 1]], ['x']])
      expect(parseSlotRanges(reply, asked)).toEqual([])
  })
})

describe('parseRedirection', () => {
  test.each([
    [
      'MOVED',
      'MOVED 3999 127.0.0.1:6381',
      { kind: 'moved', slot: 3999, node: { host: '127.0.0.1', port: 6381 } },
    ],
    ['ASK', 'ASK 3999 h.example:6381', { kind: 'ask', slot: 3999, node: { host: 'h.example', port: 6381 } }],
    ['over IPv6', 'MOVED 1 ::1:6381', { kind: 'moved', slot: 1, node: { host: '::1', port: 6381 } }],
    ['to the same host', 'MOVED 1 :6381', { kind: 'moved', slot: 1, node: { host: 'asked', port: 6381 } }],
    ['to nowhere known', 'MOVED 1 ?:6381', undefined],
    ['something else', 'CLUSTERDOWN The cluster is down', undefined],
  ] as const)('parseRedirection: %s', (_name, text, expected) => {
    expect(parseRedirection(text, asked)).toEqual(expected)
  })
})
