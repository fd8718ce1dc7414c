import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { AnswerReader } from './http1.ts'

const kept = 16

interface Read {
  readonly progress: string
  readonly status: number | undefined
  readonly body: string
  readonly leavesConnection: boolean
}

/** Feeds the pieces to a reader until the answer ends. */
function read(...pieces: readonly string[]): Read {
  const reader = new AnswerReader(kept)
  let progress = 'more'
  for (const piece of pieces) {
    if (progress !== 'more') break
    progress = reader.push(Buffer.from(piece, 'latin1'))
  }
  const { head, body, leavesConnection } = reader
  return { progress, status: head?.status, body: body.toString('latin1'), leavesConnection }
}

const cases: readonly (readonly [name: string, bytes: string, expected: Partial<Read>])[] = [
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', { body: 'ok', leavesConnection: true }],
  ['no reason phrase', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', { status: 200, leavesConnection: true }],
  ['status 204', 'HTTP/1.1 204 Gone by\r\n\r\n', { status: 204, body: '', leavesConnection: true }],
  ['status 304 with a length', 'HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n', { leavesConnection: true }],
  ['chunks', chunked('3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n'), { body: 'abc0123456789' }],
  ['a trailer', chunked('1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n'), { body: 'a', leavesConnection: true }],
  ['exactly as many bytes as are kept', sized(kept), { progress: 'whole', leavesConnection: true }],
  [
    'more bytes than are kept, all received',
    sized(kept + 1),
    { progress: 'enough', body: 'x'.repeat(kept), leavesConnection: true },
  ],
  [
    'more bytes than are kept, not all received',
    sized(kept + 9).slice(0, -2),
    { progress: 'enough', leavesConnection: false },
  ],
  ['a chunk longer than the kept bytes', chunked(`11\r\n${'x'.repeat(17)}\r\n`), { progress: 'enough' }],
  [
    'interim answers',
    `HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n${sized(2)}`,
    { body: 'xx' },
  ],
  [
    'Connection: close',
    'HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n',
    { leavesConnection: false },
  ],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', { leavesConnection: false }],
  [
    'HTTP/1.0 with keep-alive',
    'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n',
    { leavesConnection: true },
  ],
  ['bytes after its end', `${sized(2)}HTTP/1.1 200 OK`, { body: 'xx', leavesConnection: false }],
  ['a folded field', 'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\nz', { body: 'z' }],
]

const malformed: readonly (readonly [name: string, bytes: string])[] = [
  ['another protocol', 'SSH-2.0-x'],
  ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a switch of protocols', 'HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n'],
  ['a field without a name', 'HTTP/1.1 200 OK\r\n: a\r\n\r\n'],
  ['a field without a colon', 'HTTP/1.1 200 OK\r\nabc\r\n\r\n'],
  ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n'],
  ['a bare line feed', 'HTTP/1.1 200 OK\r\nA: b\nContent-Length: 1\r\n\r\n'],
  ['a NUL', 'HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n'],
  ['a length with a sign', 'HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n'],
  ['a length of 16 digits', `HTTP/1.1 200 OK\r\nContent-Length: ${'9'.repeat(16)}\r\n\r\n`],
  [
    'both a length and a chunked body',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  ],
  ['a transfer coding other than chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'],
  [
    'a transfer coding given twice',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n',
  ],
  ['a chunk without a size', chunked('\r\nabc')],
  ['a chunk of negative size', chunked('-1\r\nabc')],
  ['a chunk longer than its size', chunked('1\r\nabc')],
  ['a chunk line without an end', chunked(`1;${'x'.repeat(300)}`)],
  ['a head without an end', `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(3000)}`],
  ['interim answers without an end', 'HTTP/1.1 100 Go on\r\n\r\n'.repeat(1000)],
  ['a trailer without an end', chunked(`0\r\n${'X: y\r\n'.repeat(3000)}`)],
]

describe('answer reader', () => {
  test.each(cases)('AnswerReader: reads a response with %s', (_name, bytes, expected) => {
    expect(read(bytes)).toMatchObject({ progress: 'whole', ...expected })
  })

  test.each(malformed)('AnswerReader: rejects %s as malformed', (_name, bytes) => {
    expect(read(bytes).progress).toBe('malformed')
  })

  test('AnswerReader: a response without a length ends when its connection ends', () => {
    const reader = new AnswerReader(kept)
    expect(reader.endsWithConnection()).toBe(false)
    expect(reader.push(Buffer.from('HTTP/1.1 200 OK\r\n\r\nabc'))).toBe('more')
    expect(reader.endsWithConnection()).toBe(true)
    expect(reader.body.toString()).toBe('abc')
    expect(reader.leavesConnection).toBe(false)
  })

  test('AnswerReader: a response with a length is incomplete if its connection ends early', () => {
    const reader = new AnswerReader(kept)
    reader.push(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'))
    expect(reader.endsWithConnection()).toBe(false)
  })
})

test('AnswerReader: the result does not depend on how the bytes are split', () => {
  const texts = [...cases.map(([, bytes]) => bytes), ...malformed.map(([, bytes]) => bytes)]
  fc.assert(
    fc.property(
      fc.constantFrom(...texts),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 200 }),
      (text, sizes) => {
        const pieces: string[] = []
        for (let at = 0, n = 0; at < text.length; n += 1) {
          const size = sizes[n] ?? text.length
          pieces.push(text.slice(at, at + size))
          at += size
        }
        const { leavesConnection: _later, ...inPieces } = read(...pieces)
        expect(read(text)).toMatchObject(inPieces)
      },
    ),
  )
})

test('AnswerReader: random chunked bytes never cause an exception or a body above the maximum length', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 20 }), (pieces) => {
      const reader = new AnswerReader(kept)
      reader.push(Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
      for (const piece of pieces) if (reader.push(Buffer.from(piece)) !== 'more') break
      expect(reader.body.length).toBeLessThanOrEqual(kept)
    }),
  )
})

function chunked(body: string): string {
  return `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`
}

function sized(length: number): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n${'x'.repeat(length)}`
}
