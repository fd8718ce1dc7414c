import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { publicContract } from '#internal/openapi/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { startTestApi, type TestAnswer, type TestApi, testApiKey, testLimits } from '#test/support/api.ts'
import { usualCases } from '#test/support/nightly.ts'

// Tests one kind of store, since input is refused before a store is chosen.
describe.each(usualCases(recordDurabilities, 1))('records in %s', (durability) => {
  let api: TestApi

  beforeAll(async () => {
    api = await startTestApi({ recordDurability: durability })
  }, 30_000)
  afterAll(() => api.close())

  /** Part of every bad value, to detect responses that repeat the value. */
  const mark = 'Zq9'
  const ttlSecondsMax = 2_592_000

  type Fields = Readonly<Record<string, unknown>>
  interface Target {
    readonly method: 'POST' | 'PUT' | 'GET' | 'DELETE'
    readonly path: string
    /** Returns a valid check for an unused key. */
    readonly valid: () => Fields
  }

  let keys = 0
  function fresh(): { scope: string; key: string } {
    keys += 1
    return { scope: 'bad-input', key: `key-${keys}` }
  }

  const check: Target = { method: 'POST', path: '/v1/record', valid: fresh }
  const save: Target = {
    method: 'PUT',
    path: '/v1/record',
    valid: () => ({ ...fresh(), status: 200, body: 1 }),
  }
  const extend: Target = {
    method: 'POST',
    path: '/v1/record/extend',
    valid: () => ({ ...fresh(), lockToken: 'token' }),
  }
  const batch: Target = { method: 'POST', path: '/v1/record/batch', valid: () => ({ checks: [fresh()] }) }
  const read: Target = { method: 'GET', path: '/v1/record', valid: fresh }
  const remove: Target = { method: 'DELETE', path: '/v1/record', valid: fresh }
  const withBody = [check, save, extend, batch]
  const withQuery = [read, remove]

  async function send(
    target: Target,
    body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>,
    headers: Record<string, string> = {},
  ): Promise<TestAnswer> {
    const response = await fetch(`${api.url}${target.path}`, {
      method: target.method,
      headers: { Authorization: `Bearer ${testApiKey}`, 'Content-Type': 'application/json', ...headers },
      body,
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: JSON.parse(text) as Record<string, unknown>,
    }
  }

  const sendFields = (target: Target, fields: Fields) => send(target, JSON.stringify(fields))
  const sendQuery = (target: Target, query: string) => api.call(target.method, `${target.path}?${query}`)

  /** Checks that the response is exactly the documented error, and that the contract describes the error. */
  function expectRefused(target: Target, answer: TestAnswer, ...words: (string | number)[]): void {
    expect(answer.json).toEqual({
      message: expect.any(String),
      error: 'Bad Request',
      statusCode: 400,
      code: 'invalid_request',
      requestId: answer.headers.get('x-request-id'),
    })
    expect(answer.status).toBe(400)
    expect(answer.headers.get('content-type')).toBe('application/json')
    for (const word of words) expect(answer.json.message).toContain(String(word))
    expect(answer.text).not.toContain(mark)
    const operation = publicContract(testLimits).paths[target.path]?.[target.method.toLowerCase()]
    expect(Object.keys(operation?.responses['400']?.content['application/json']?.examples ?? {})).toContain(
      'invalid_request',
    )
  }

  type Case = readonly [name: string, value: unknown]

  const textCases = (most: number): Case[] => [
    ['null', null],
    ['a number', 7],
    ['true', true],
    ['an array', [mark]],
    ['an object', { a: mark }],
    ['empty', ''],
    ['a character too long', mark + 'x'.repeat(most - mark.length + 1)],
    ['a code point too long', '😀'.repeat(most + 1)],
    ['NUL', `${mark}\u0000`],
    ['a line feed', `${mark}\n`],
    ['the last of the C0 controls', `${mark}\u001f`],
    ['DEL', `${mark}\u007f`],
    ['a C1 control', `${mark}\u0085`],
    ['a high surrogate alone', `${mark}\ud800`],
    ['a low surrogate alone', `\udc00${mark}`],
    ['surrogates the wrong way round', `${mark}\udc00\ud800`],
    ['U+FFFD, which replaces lost bytes', `${mark}\ufffd`],
  ]
  const goodTexts = (most: number): Case[] => [
    ['one character', 'x'],
    ['the most characters', 'x'.repeat(most)],
    ['the most code points', '😀'.repeat(most)],
    ['a space', ' '],
    ['no-break and zero-width characters', '\u00a0\u200b\ufeff'],
  ]
  const integerCases = (least: number, most: number): Case[] => [
    ['null', null],
    ['a string', `${mark}5`],
    ['a number in a string', '5'],
    ['true', true],
    ['an array', [5]],
    ['an object', { a: mark }],
    ['a fraction', least + 0.5],
    ['negative', -5],
    ['one too few', least - 1],
    ['one too many', most + 1],
    ['beyond 2^53', 1e21],
  ]

  /** Error text of a field's rule, with values outside and inside it. */
  const rules = {
    text: (most: number) => ({
      told: [`a string of 1 to ${most} characters without control characters`],
      bad: textCases(most),
      good: goodTexts(most),
    }),
    token: (most: number) => ({
      told: [`a string of 1 to ${most} characters`],
      bad: textCases(most).slice(0, 8),
      good: [...goodTexts(most), ['control characters', '\u0000\n']] as Case[],
    }),
    integer: (least: number, most: number) => ({
      told: [`a whole number from ${least} to ${most}`],
      bad: integerCases(least, most),
      good: [
        ['the least', least],
        ['the most', most],
      ] as Case[],
    }),
  }

  const address = { scope: rules.text(128), key: rules.text(255) }
  const ttlSeconds = {
    ...rules.integer(1, ttlSecondsMax),
    told: ['a whole number'],
  }
  const lockSeconds = rules.integer(1, 900)
  const checkFields = {
    ...address,
    ttlSeconds,
    lockSeconds,
    attemptId: rules.text(128),
    fingerprint: rules.text(255),
  }
  const fieldsOf: readonly (readonly [Target, Readonly<Record<string, typeof address.scope>>])[] = [
    [check, { ...checkFields, waitMs: rules.integer(0, 25_000) }],
    [save, { ...address, status: rules.integer(100, 599), ttlSeconds, lockToken: rules.token(128) }],
    [extend, { ...address, lockToken: rules.token(128), lockSeconds }],
  ]
  const badFields = fieldsOf.flatMap(([target, fields]) =>
    Object.entries(fields).flatMap(([field, { told, bad }]) =>
      bad.map(([name, value]) => ({
        target,
        method: target.method,
        path: target.path,
        field,
        name,
        value,
        told,
      })),
    ),
  )
  const goodFields = fieldsOf.flatMap(([target, fields]) =>
    Object.entries(fields).flatMap(([field, { good }]) =>
      good.map(([name, value]) => ({ target, method: target.method, path: target.path, field, name, value })),
    ),
  )
  const requiredFields = [...withBody, ...withQuery].flatMap((target) =>
    Object.keys(target.valid()).map((field) => ({ target, method: target.method, path: target.path, field })),
  )

  describe('fields', () => {
    test.each(badFields)(
      '$method $path: refuses the field $field if it is $name',
      async ({ target, field, value, told }) => {
        const answer = await sendFields(target, { ...target.valid(), [field]: value })
        expectRefused(target, answer, `"${field}" must be `, ...told)
      },
    )

    test.each(goodFields)(
      '$method $path: accepts the field $field if it is $name',
      async ({ target, field, value }) => {
        const answer = await sendFields(target, { ...target.valid(), [field]: value })
        // The lockToken is a valid field, but it owns no lock, so the call is refused.
        const tokened = target === extend || field === 'lockToken'
        expect(answer.json.code).toBe(tokened ? 'lock_lost' : undefined)
        expect(answer.status).toBe(tokened ? 409 : 200)
      },
    )

    test.each([ttlSecondsMax + 1, 2_147_483_648, 1e21])(
      'ttlSeconds: the error for %d names the configured maximum',
      async (ttlSeconds) => {
        for (const target of [check, save]) {
          const answer = await sendFields(target, { ...target.valid(), ttlSeconds })
          expectRefused(target, answer, `"ttlSeconds" must be a whole number from 1 to ${ttlSecondsMax}`)
        }
      },
    )

    test.each(requiredFields)(
      '$method $path: refuses a request without the field $field',
      async ({ target, field }) => {
        const { [field]: _left, ...others } = target.valid()
        const answer = withQuery.includes(target)
          ? await sendQuery(target, new URLSearchParams(others as Record<string, string>).toString())
          : await sendFields(target, others)
        expectRefused(target, answer, `"${field}" is required`)
      },
    )

    test.each([
      ['a misspelt name', 'lockTokn'],
      ['a name in another case', 'Scope'],
      ['a field of another call', 'checks '],
      ['an empty name', ''],
      ['__proto__', '__proto__'],
      ['constructor', 'constructor'],
      ['a name with a line break', 'a\nb'],
      ['a very long name', 'n'.repeat(10_000)],
    ])('unknown field: the error names the field: %s', async (_name, field) => {
      for (const target of withBody) {
        const text = JSON.stringify(target.valid()).replace(/\}$/, `,${JSON.stringify(field)}:"${mark}"}`)
        const answer = await send(target, text)
        expectRefused(target, answer, 'is not a field of this call', field.slice(0, 64).replace('\n', '\\n'))
        expect(answer.text.length).toBeLessThan(400)
      }
    })

    test('POST /v1/record/batch: waitMs is not a field of a check in a batch', async () => {
      const answer = await sendFields(batch, { checks: [{ ...fresh(), waitMs: 1 }] })
      expect(answer.json.results).toEqual([expect.objectContaining({ statusCode: 400 })])
    })

    test.each([
      ['literally', '"scope":"a"'],
      ['with JSON escapes', '"sc\\u006fpe":"a"'],
    ])('repeated field: is refused when the second name is written %s', async (_name, member) => {
      for (const target of [check, save, extend]) {
        const text = JSON.stringify(target.valid()).replace(/\}$/, `,${member}}`)
        expectRefused(target, await send(target, text), 'is repeated')
      }
    })
  })

  describe('headers of a record', () => {
    test.each<Case>([
      ['null', null],
      ['a string', mark],
      ['an array', [mark]],
      ['a number among them', { a: 'x', b: 7 }],
      ['null among them', { a: null }],
      ['a list among them', { a: [mark] }],
      ['a number under a name with a line break', { 'a\nb': 7 }],
      ['a number under an empty name', { '': 7 }],
    ])('headers of a record: are refused if they are %s', async (_name, headers) => {
      expectRefused(save, await sendFields(save, { ...save.valid(), headers }), 'headers', 'must be')
    })

    test.each([
      ['an empty name', '', '""'],
      ['a space', ' ', '" "'],
      ['a line break and another header', 'a\r\nSet-Cookie', 'a\\r\\nSet-Cookie'],
      ['a colon', 'a:b', 'a:b'],
      ['a space inside', 'a b', 'a b'],
      ['a tab behind', 'a\t', 'a\\t'],
      ['NUL', 'a\0', 'a\\u0000'],
      ['DEL', 'a\x7f', 'a'],
      ['a separator', 'a(b)', 'a(b)'],
      ['a letter that is not ASCII', 'ä', 'ä'],
      ['257 characters', 'n'.repeat(257), 'nnn'],
    ])(
      'headers: an invalid name (%s) gets 400 with an error that names the header',
      async (_case, name, named) => {
        const headers = { Fine: 'x', [name]: mark }
        const answer = await sendFields(save, { ...save.valid(), headers })
        expectRefused(save, answer, 'must be an HTTP field name', named)
      },
    )

    test.each([
      ['a line break and another header', 'x\r\nSet-Cookie: a=b'],
      ['a carriage return', '\r'],
      ['a line feed at the end', 'x\n'],
      ['NUL', 'x\0'],
      ['an escape', '\x1b[31m'],
      ['DEL', '\x7f'],
      ['half a surrogate pair', '\ud83d'],
      ['65 537 characters', 'v'.repeat(65_537)],
    ])(
      'headers: an invalid value (%s) gets 400 with an error that names the header',
      async (_case, value) => {
        const answer = await sendFields(save, { ...save.valid(), headers: { 'X-Ok': 'x', 'X-Note': value } })
        expectRefused(save, answer, '"headers.X-Note" must be a valid HTTP field value')
      },
    )

    test('headers: tokens, tabs, Latin-1, UTF-8, empty values and surrounding white space are kept as sent', async () => {
      const headers = {
        "!#$%&'*+-.^_`|~09AZaz": 'x',
        ['n'.repeat(256)]: 'x',
        Empty: '',
        Tab: 'a\tb',
        Around: ' a ',
        Latin: 'caf\u00e9 \u0085',
        Utf8: '日本 😀',
        Long: 'v'.repeat(60_000),
      }
      const { scope, key } = fresh()
      const text = JSON.stringify(headers).replace('{', '{"__proto__":"x",')
      const saved = await send(
        save,
        `{"scope":"${scope}","key":"${key}","status":200,"headers":${text},"body":1}`,
      )
      expect(saved.text).toBe('{"ok":true}')
      expect((await sendQuery(read, `scope=${scope}&key=${key}`)).text).toContain(`"headers":${text},`)
    })

    test('headers: a repeated name is refused, because parsers differ in which value they use', async () => {
      for (const repeated of ['{"a":7,"a":"x"}', '{"a":"x","b":"x","\\u0061":"y"}']) {
        const text = JSON.stringify(save.valid()).replace(/\}$/, `,"headers":${repeated}}`)
        expectRefused(save, await send(save, text), '"headers"', 'is repeated')
      }
    })
  })

  describe('checks of a batch', () => {
    test.each<Case>([
      ['null', null],
      ['an object', { a: mark }],
      ['a string', mark],
      ['empty', []],
      ['101 elements', Array.from({ length: 101 }, () => 1)],
    ])('checks of a batch: are refused if they are %s', async (_name, checks) => {
      expectRefused(
        batch,
        await sendFields(batch, { checks }),
        '"checks" must be an array of 1 to 100 elements',
      )
    })

    test('checks of a batch: a repeated field fails only the check that contains it', async () => {
      const answer = await send(
        batch,
        `{"checks":[{"scope":"a","key":"k1","key":"k2"},{"scope":"a","key":"k3"}]}`,
      )
      expect(answer.json.results).toEqual([
        expect.objectContaining({ statusCode: 400, message: expect.stringContaining('is repeated') }),
        expect.objectContaining({ locked: true }),
      ])
    })
  })

  const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')
  const valid = JSON.stringify(fresh())
  const badBodies: readonly (readonly [
    name: string,
    body: string | Uint8Array<ArrayBuffer>,
    told: string,
  ])[] = [
    ['empty', '', 'it is missing'],
    ['white space', ' \n', 'must be JSON'],
    ['truncated JSON', valid.slice(0, -1), 'must be JSON'],
    ['text after the JSON', `${valid}x`, 'must be JSON'],
    ['two values', `${valid}${valid}`, 'must be JSON'],
    ['a trailing comma', `${valid.slice(0, -1)},}`, 'must be JSON'],
    ['single quotes', `{'scope':'${mark}'}`, 'must be JSON'],
    ['a comment', `/* ${mark} */${valid}`, 'must be JSON'],
    ['NaN', '{"ttlSeconds":NaN}', 'must be JSON'],
    ['a form', `scope=${mark}&key=k`, 'must be JSON'],
    ['a control character in a string', `{"scope":"${mark}\n"}`, 'must be JSON'],
    ['a byte-order mark', `\ufeff${valid}`, 'without byte order mark'],
    ['UTF-16', utf16(valid), 'must be UTF-8'],
    ['a byte that is no UTF-8', Buffer.from(`{"scope":"\xff"}`, 'latin1'), 'must be UTF-8'],
    ['an incomplete character', Buffer.from('{"scope":"é"}').subarray(0, 11), 'must be UTF-8'],
    ['an overlong form', Buffer.from([0x22, 0xc0, 0x80, 0x22]), 'must be UTF-8'],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'must be UTF-8'],
    ['null', 'null', 'must be a JSON object'],
    ['true', 'true', 'must be a JSON object'],
    ['a number', '7', 'must be a JSON object'],
    ['a string', `"${mark}"`, 'must be a JSON object'],
    ['an array', `[${valid}]`, 'must be a JSON object'],
    ['100 000 opening brackets', '['.repeat(100_000), 'not be nested deeper than 256 levels'],
  ]

  describe('request body', () => {
    test.each(badBodies)('request body: is refused if it is or contains %s', async (_name, body, told) => {
      for (const target of withBody) expectRefused(target, await send(target, body), told)
    })

    test.each([257, 100_000])('request body: is refused if it is nested %d levels deep', async (levels) => {
      const deep = `${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`
      for (const target of withBody) {
        const text = JSON.stringify({ ...target.valid(), deep: 0 }).replace('"deep":0', `"deep":${deep}`)
        expectRefused(target, await send(target, text), 'not be nested deeper than 256 levels')
      }
    })

    test('request body: 256 levels of nesting are accepted, and the call is refused only for its unknown field', async () => {
      const deep = `${'['.repeat(255)}${']'.repeat(255)}`
      for (const target of withBody) {
        const text = JSON.stringify({ ...target.valid(), deep: 0 }).replace('"deep":0', `"deep":${deep}`)
        expectRefused(target, await send(target, text), 'not a field of this call')
      }
      const { scope, key } = fresh()
      const saved = await send(save, `{"scope":"${scope}","key":"${key}","status":200,"body":${deep}}`)
      expect(saved.text).toBe('{"ok":true}')
      expect((await sendQuery(read, `scope=${scope}&key=${key}`)).text).toContain(`"body":${deep}}`)
    })

    test.each(['gzip', 'deflate', 'br', 'gzip, identity', 'x-none'])(
      'request body: is refused with Content-Encoding %s',
      async (encoding) => {
        for (const target of withBody) {
          const body = Bun.gzipSync(Buffer.from(JSON.stringify(target.valid())))
          const answer = await send(target, body, { 'Content-Encoding': encoding })
          expectRefused(target, answer, 'without Content-Encoding')
        }
      },
    )

    test('request body: is accepted with Content-Encoding identity and with any Content-Type', async () => {
      const headers = { 'Content-Encoding': 'identity', 'Content-Type': 'text/plain' }
      expect((await send(check, JSON.stringify(fresh()), headers)).status).toBe(200)
    })
  })

  /** Maximum bytes of a request: the maximum body and 64 KiB, or 1 MiB for a batch. */
  const requestBytesMax = (target: Target) => (target === batch ? 1024 * 1024 : 262_144 + 65_536)

  /** Returns a request body that is sent without Content-Length. */
  function chunked(text: string, chunkBytes = 32_768): ReadableStream<Uint8Array> {
    const bytes = Buffer.from(text)
    let at = 0
    return new ReadableStream({
      pull(controller) {
        controller.enqueue(bytes.subarray(at, at + chunkBytes))
        at += chunkBytes
        if (at >= bytes.length) controller.close()
      },
    })
  }

  describe('request size', () => {
    test('request body: is accepted at the maximum size and refused one byte above, with and without Content-Length', async () => {
      for (const target of withBody) {
        const text = JSON.stringify(target.valid())
        const most = text + ' '.repeat(requestBytesMax(target) - text.length)
        const status = target === extend ? 409 : 200
        expect((await send(target, most)).status).toBe(status)
        expectRefused(target, await send(target, `${most} `), requestBytesMax(target))
        if (target === check || target === batch) expect((await send(target, chunked(most))).status).toBe(200)
        expectRefused(target, await send(target, chunked(`${most} `)), requestBytesMax(target))
      }
    })

    test('request body: is refused unread if its Content-Length is too large', async () => {
      for (const target of withBody) {
        const answer = await declare(target, 5_000_000_000)
        expect(answer).toStartWith('HTTP/1.1 400 Bad Request\r\n')
        expect(answer.toLowerCase()).toContain('\r\nconnection: close\r\n')
        expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: 'invalid_request' })
      }
    })
  })

  /** Sends only the head of a request, and returns the response text after the server has closed the connection. */
  async function declare(target: Target, bytes: number): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>()
    let answer = ''
    const head = `${target.method} ${target.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${testApiKey}\r\n`
    const socket = await Bun.connect({
      hostname: 'localhost',
      port: Number(new URL(api.url).port),
      socket: {
        data: (_socket, chunk) => {
          answer += chunk.toString()
        },
        close: () => resolve(answer),
      },
    })
    socket.write(`${head}Content-Length: ${bytes}\r\n\r\n`)
    return promise
  }

  const badQueries: readonly (readonly [name: string, query: string, told: string])[] = [
    ['nothing', '', '"scope" is required'],
    ['scope twice', 'scope=a&key=k&scope=a', 'is repeated'],
    ['scope twice, once in escapes', 'scope=a&key=k&sc%6fpe=a', 'is repeated'],
    ['an unknown name', `scope=a&key=k&lockTokn=${mark}`, '"lockTokn" is not a field of this call'],
    ['a name of the body', `scope=a&key=k&ttlSeconds=5`, '"ttlSeconds" is not a field of this call'],
    ['__proto__', `scope=a&key=k&__proto__=${mark}`, '"__proto__" is not a field of this call'],
    ['an array’s name', `scope[]=${mark}&key=k`, 'is required'],
    ['a name alone', 'scope&key=k', '"scope" must be a string of 1 to 128 characters'],
    ['an empty scope', 'scope=&key=k', '"scope" must be a string of 1 to 128 characters'],
    ['an empty key', 'scope=a&key=', '"key" must be a string of 1 to 255 characters'],
    ['a scope too long', `scope=${'x'.repeat(129)}&key=k`, '"scope" must be a string of 1 to 128 characters'],
    ['a key too long', `scope=a&key=${'%F0%9F%98%80'.repeat(256)}`, '"key" must be a string of 1 to 255'],
    ['NUL', `scope=${mark}%00&key=k`, 'without control characters'],
    ['a line feed', `scope=a&key=${mark}%0A`, 'without control characters'],
    ['a C1 control', `scope=a&key=${mark}%C2%85`, 'without control characters'],
    ['half an escape', `scope=${mark}%&key=k`, 'percent-encoded'],
    ['an escape of no digits', `scope=${mark}%zz&key=k`, 'percent-encoded'],
    ['bytes that are no UTF-8', `scope=${mark}%FF&key=k`, 'percent-encoded'],
    ['an incomplete character', `scope=a&key=${mark}%C3`, 'percent-encoded'],
    ['an overlong form', `scope=a&key=${mark}%C0%80`, 'percent-encoded'],
    ['a surrogate', `scope=a&key=${mark}%ED%A0%80`, 'percent-encoded'],
    ['a bad escape in a name', `scope=a&key=k&%FF=${mark}`, 'percent-encoded'],
    ['an endless one', `scope=a&key=${'x'.repeat(8192)}`, 'must not be longer than 8192 characters'],
  ]

  describe('query', () => {
    test.each(badQueries)('query: is refused if it contains %s', async (_name, query, told) => {
      for (const target of withQuery) expectRefused(target, await sendQuery(target, query), told)
    })

    test('query: GET /v1/record does not accept a lockToken', async () => {
      const answer = await sendQuery(read, `scope=a&key=k&lockToken=${mark}`)
      expectRefused(read, answer, '"lockToken" is not a field of this call')
    })

    test.each([
      ['empty', ''],
      ['too long', `${mark}${'x'.repeat(126)}`],
    ])('query: a lockToken that is %s is refused', async (_name, lockToken) => {
      const answer = await sendQuery(remove, `scope=a&key=k&lockToken=${lockToken}`)
      expectRefused(remove, answer, '"lockToken" must be a string of 1 to 128 characters')
    })

    test.each([
      ['the longest scope and key', `scope=${'%F0%9F%98%80'.repeat(128)}&key=${'%F0%9F%98%80'.repeat(255)}`],
      ['stray separators', '&scope=a&&key=k&'],
      ['an equals sign in a value', 'scope=a=b&key=k'],
    ])('query: is accepted with %s', async (_name, query) => {
      for (const target of withQuery) expect((await sendQuery(target, query)).status).toBe(200)
    })
  })

  describe('routing', () => {
    test.each(['/', '/v1', '/v1/records', '/v1/record/other', '/v1/%ff', '/metrics', '/readyz'])(
      'routing: an unknown path returns 404: %s',
      async (path) => {
        const answer = await api.call('GET', path)
        expect(answer.status).toBe(404)
        expect(answer.json).toEqual({
          message: 'This port has no such route: GET /v1/openapi.json lists its routes',
          error: 'Not Found',
          statusCode: 404,
          code: 'route_unknown',
          requestId: answer.headers.get('x-request-id'),
        })
      },
    )

    test.each([
      ['PATCH', '/v1/record', 'POST, PUT, GET, HEAD, DELETE'],
      ['GET', '/v1/record/extend', 'POST'],
      ['DELETE', '/v1/record/batch', 'POST'],
      ['POST', '/v1/openapi.json', 'GET, HEAD'],
    ])('routing: an unsupported method returns 405: %s %s', async (method, path, allow) => {
      const answer = await api.call(method, path)
      expect(answer.status).toBe(405)
      expect(answer.headers.get('allow')).toBe(allow)
      expect(answer.json).toMatchObject({
        code: 'method_not_allowed',
        error: 'Method Not Allowed',
        statusCode: 405,
      })
    })
  })
})
