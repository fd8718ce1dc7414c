import { describe, expect, test } from 'bun:test'
import { DrizzleQueryError } from 'drizzle-orm'
import { createLineLimit, createLogger, type LoggerOptions, type OwnedLogger, Sampler } from './log.ts'

type Line = Record<string, unknown>

function open(options: Partial<LoggerOptions> = {}): {
  log: OwnedLogger
  lines: () => Line[]
  text: () => string
} {
  let text = ''
  const log = createLogger({
    level: 'info',
    service: 'api',
    version: '1.2.3',
    clock: { now: () => Date.UTC(2026, 10, 21, 9, 8, 7, 6) },
    destination: {
      write(bytes) {
        text += Buffer.from(bytes).toString()
        return bytes.length
      },
    },
    ...options,
  })
  const read = () => {
    log.close()
    return text
  }
  return {
    log,
    text: read,
    lines: () =>
      read()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Line),
  }
}

test('logger: writes one JSON object with time, level, service, version, text and fields', () => {
  const { log, lines } = open()
  log.warn({ status: 503, durationMs: 1.5 }, 'store is away')
  expect(lines()).toEqual([
    {
      time: '2026-11-21T09:08:07.006Z',
      level: 'warn',
      service: 'api',
      version: '1.2.3',
      msg: 'store is away',
      status: 503,
      durationMs: 1.5,
    },
  ])
})

test('logger: skips levels below the configured level', () => {
  const { log, lines } = open({ level: 'warn' })
  log.debug({}, 'a')
  log.info({}, 'b')
  log.warn({}, 'c')
  log.error({}, 'd')
  expect(lines().map((line) => line.msg)).toEqual(['c', 'd'])
})

describe('redaction', () => {
  test.each([
    ['the field authorization', { authorization: 'hunter2' }],
    ['a field name in upper case', { Authorization: 'hunter2' }],
    ['a field named like a header', { 'set-cookie': 'hunter2' }],
    ['a field whose name ends with a secret name', { databasePassword: 'hunter2' }],
    ['a field name in snake case', { api_key: 'hunter2' }],
    ['a lock token', { lockToken: 'hunter2' }],
    ['a body that is an object', { body: { a: 'hunter2' } }],
    ['the key of a record', { key: 'hunter2' }],
    ['a payload', { payload: 'hunter2' }],
    ['headers', { headers: { accept: 'hunter2' } }],
    ['the data of a Secret', { stringData: { a: 'hunter2' } }],
    ['a field that is redacted in payloads', { passwordHash: 'hunter2' }],
    ['a nested field', { request: { list: [{ secret: 'hunter2' }] } }],
    ['the cause of an error', { cause: new Error('x', { cause: { password: 'hunter2' } }) }],
    ['the result of toJSON', { config: { toJSON: () => ({ keyRing: 'hunter2' }) } }],
    ['the password of a URL', { url: 'redis://user:hunter2@host:6379' }],
    ['a URL in an error', { cause: new Error('cannot reach postgres://u:hunter2@h/d') }],
    ['an API key in a text', { cause: new Error('no such key lk_hunter2hunter2') }],
    [
      'the parameters of a DrizzleQueryError',
      { cause: new DrizzleQueryError('SELECT $1', ['hunter2'], new Error('x')) },
    ],
    [
      'the members of an error of the driver',
      { cause: Object.assign(new Error('x'), { detail: 'hunter2' }) },
    ],
    ['bytes', { raw: Buffer.from('hunter2') }],
  ])('log redaction: hides a secret in %s', (_case, fields) => {
    const { log, text } = open()
    log.info(fields, 'x')
    expect(text()).toContain('"msg":"x"')
    expect(text()).not.toContain('hunter2')
  })

  test('log redaction: keeps fields whose names only resemble secret names', () => {
    const { log, lines } = open()
    log.info({ keyId: 'k1', secretName: 'acme', scopes: 2 }, 'x')
    expect(lines()[0]).toMatchObject({ keyId: 'k1', secretName: 'acme', scopes: 2 })
  })
})

describe('logger: writes a line for every input', () => {
  const loop: Record<string, unknown> = { a: 1 }
  loop.self = loop
  test.each([
    ['a circular reference', loop],
    ['a bigint', { n: 10n }],
    ['undefined and functions', { u: undefined, f: () => 1 }],
    ['an invalid date', { at: new Date(Number.NaN) }],
    [
      'a getter that throws',
      {
        get broken() {
          throw new Error('no')
        },
      },
    ],
    ['a thousand members', Object.fromEntries(Array.from({ length: 1000 }, (_none, i) => [`m${i}`, i]))],
    ['a long text', { text: 'x'.repeat(1_000_000) }],
    ['an array', [1, 2]],
  ])('logger: writes a line for fields with %s', (_case, fields) => {
    const { log, lines, text } = open()
    log.info(fields, 'here')
    expect(lines()).toHaveLength(1)
    expect(lines()[0]?.msg).toBe('here')
    expect(text().length).toBeLessThan(20_000)
  })

  test('logger: a field cannot override the standard members of a line', () => {
    const { log, lines } = open()
    log.info(JSON.parse('{"level":"debug","msg":"forged","__proto__":{"a":1}}') as object, 'real')
    expect(lines()[0]).toMatchObject({ level: 'info', msg: 'real', level_: 'debug', msg_: 'forged' })
  })

  test('logger: escapes a line feed in a value', () => {
    const { log, text } = open()
    log.info({ value: 'a\n{"level":"error"}' }, 'x')
    expect(text().trim().split('\n')).toHaveLength(1)
  })
})

test('logger: an error field contains name, message, code, stack and cause', () => {
  const { log, lines } = open()
  log.error(
    { cause: new TypeError('outer', { cause: Object.assign(new Error('inner'), { code: 'E1' }) }) },
    'x',
  )
  expect(lines()[0]?.cause).toMatchObject({
    name: 'TypeError',
    message: 'outer',
    stack: expect.stringContaining('log.test.ts'),
    cause: { message: 'inner', code: 'E1' },
  })
})

test('pretty logger: writes short lines and readable stack traces', () => {
  const { log, text } = open({ pretty: true })
  log.info({ port: 8080, url: 'http://localhost:8080', note: 'two words', ms: 1.2345 }, 'listening')
  log.error({ cause: new Error('boom') }, 'failed')
  const plain = Bun.stripANSI(text())
  expect(plain).toStartWith(
    '09:08:07.006 info  listening port=8080 url=http://localhost:8080 note="two words" ms=1.23\n',
  )
  expect(plain).toContain('failed cause="boom"\n    Error: boom\n')
})

test('line limit: limits the lines per cause and second, and reports each suppressed line', () => {
  const suppressed: string[] = []
  let nowMs = 5_000
  const limit = createLineLimit({
    perSecondMax: 3,
    clock: { now: () => nowMs },
    onSuppressed: (cause) => suppressed.push(cause),
  })
  const written = (cause: string, lines: number) =>
    Array.from({ length: lines }, () => limit(cause)).filter(Boolean).length
  expect(written('a', 10)).toBe(3)
  expect(written('b', 2)).toBe(2)
  expect(suppressed).toEqual(Array(7).fill('a'))
  nowMs = 5_999
  expect(written('a', 1)).toBe(0)
  nowMs = 6_000
  expect(written('a', 10)).toBe(3)
})

const letThrough = (share: number, lines: number) => {
  const sampler = new Sampler()
  sampler.share = share
  return Array.from({ length: lines }, () => sampler.keeps()).filter(Boolean).length
}

test.each([
  [1, 1_000, 1_000],
  [0.5, 1_000, 500],
  [0.25, 1_000, 250],
  [0.001, 10_000, 10],
  [0, 1_000, 0],
])('sampler: with a share of %d, of %d lines %d are written', (share, lines, written) => {
  expect(Math.abs(letThrough(share, lines) - written)).toBeLessThanOrEqual(share > 0 && share < 1 ? 1 : 0)
})

test('sampler: applies a changed share from the next line on', () => {
  const sampler = new Sampler()
  sampler.share = 0
  expect([sampler.keeps(), sampler.keeps()]).toEqual([false, false])
  sampler.share = 1
  expect([sampler.keeps(), sampler.keeps()]).toEqual([true, true])
})
