import { afterEach, describe, expect, test } from 'bun:test'
import { apiError, isApiError } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { holding } from '#test/support/intake/body-holding.ts'
import { type BodyBounds, checkBodyHeaders, readBody } from './body.ts'
import { BodyBudget, type Pace } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import type { AdmittingRoute } from './route.ts'
import { createServer } from './server.ts'

const bytesMax = 10

function post(
  body: string | ReadableStream<Uint8Array> | null,
  headers: Record<string, string> = {},
): Request {
  return new Request('http://localhost/', { method: 'POST', body, headers })
}

function chunks(...parts: readonly string[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(new TextEncoder().encode(part))
      controller.close()
    },
  })
}

const broken = () =>
  new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.error(new Error('gone'))
    },
  })

const owner = { owner: 'a', sourceOf: () => 'a' }
const bounds: BodyBounds = { bytesMax, tooLong: 'invalid_request' }

async function read(
  request: Request,
  budget = new BodyBudget({ bytesMax: 100 }),
  changes: Partial<BodyBounds> = {},
) {
  const incoming = checkBodyHeaders(request, { ...bounds, ...changes }, owner)
  if (incoming.kind === 'error') return incoming
  const body = await readBody(request, incoming, budget)
  budget.free(incoming)
  return isApiError(body) ? body : Buffer.from(body).toString()
}

describe('readBody', () => {
  test.each([
    ['a body of a declared length', post('0123456789', { 'content-length': '10' }), '0123456789'],
    ['a body that arrives in pieces', post(chunks('01234', '56789')), '0123456789'],
    ['an empty body', post('', { 'content-length': '0' }), ''],
    ['no body as an empty one', post(null), ''],
    [
      'a body with Content-Encoding: identity',
      post('a', { 'content-length': '1', 'content-encoding': 'identity' }),
      'a',
    ],
  ])('readBody: returns %s', async (_case, request, text) => {
    expect(await read(request)).toBe(text)
  })

  test.each([
    ['a declared length over the limit', post('a', { 'content-length': '11' }), 'longer than 10 bytes'],
    ['a Content-Length that is not a number', post('a', { 'content-length': 'ten' }), 'longer than 10 bytes'],
    [
      'a body that exceeds the limit while it arrives',
      post(chunks('01234', '567890')),
      'longer than 10 bytes',
    ],
    ['a compressed body', post('a', { 'content-encoding': 'gzip' }), 'Content-Encoding'],
    ['a chunked body that breaks off', post(broken()), 'connection ended before'],
    [
      'a body that breaks off before its declared length',
      post(broken(), { 'content-length': '5' }),
      'connection ended before',
    ],
  ])('readBody: returns 400 for %s', async (_case, request, text) => {
    expect(await read(request)).toMatchObject({
      kind: 'error',
      code: 'invalid_request',
      message: expect.stringContaining(text),
    })
  })

  test.each([
    ['a declared length over the limit', post('a', { 'content-length': '11' })],
    ['a body that exceeds the limit while it arrives', post(chunks('01234', '567890'))],
  ])('readBody: returns 413 for %s if the route allows 413', async (_case, request) => {
    expect(await read(request, new BodyBudget({ bytesMax: 100 }), { tooLong: 'body_too_large' })).toEqual({
      kind: 'error',
      code: 'body_too_large',
      message: 'The body must not be longer than 10 bytes',
      headers: { Connection: 'close' },
    })
  })

  test('readBody: closes the connection of a body over the limit whose remaining bytes are still being sent', async () => {
    expect(await read(post('a', { 'content-length': '11' }))).toMatchObject({
      headers: { Connection: 'close' },
    })
  })

  test('readBody: a body that stalls past the deadline causes 400', async () => {
    const stuck = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array(1)),
    })
    expect(
      await read(post(stuck), new BodyBudget({ bytesMax: 2000, pace: { pauseMsMax: 50 } })),
    ).toMatchObject({
      code: 'invalid_request',
      message: 'The body was sent too slowly',
    })
  })
})

describe('readBody and the budget', () => {
  test('readBody: a full budget causes 503 with Retry-After, and reading succeeds again once memory is released', async () => {
    const budget = new BodyBudget({ bytesMax: 15 })
    const held = holding('b')
    budget.grow(held, 10, 0)
    expect(await read(post('012345', { 'content-length': '6' }), budget)).toMatchObject({
      code: 'overloaded',
      headers: { 'Retry-After': '1' },
    })
    expect(await read(post('01234', { 'content-length': '5' }), budget)).toBe('01234')
    budget.free(held)
    expect(await read(post('012345', { 'content-length': '6' }), budget)).toBe('012345')
  })

  test.each([
    ['read', () => post('0123456789', { 'content-length': '10' })],
    ['too long', () => post(chunks('0123456789', '0'))],
    ['broken off', () => post(broken())],
  ])('readBody: no charge remains after a body that was %s', async (_case, request) => {
    const budget = new BodyBudget({ bytesMax })
    await read(request(), budget)
    expect(budget.taken).toBe(0)
  })

  test('readBody: charges a complete body at its length until `free` is called', async () => {
    const budget = new BodyBudget({ bytesMax })
    const request = post(chunks('012', '3'))
    const incoming = checkBodyHeaders(request, bounds, owner)
    if (incoming.kind === 'error') throw new Error(incoming.message)
    await readBody(request, incoming, budget)
    expect(budget.taken).toBe(4)
    budget.free(incoming)
    budget.free(incoming)
    expect(budget.taken).toBe(0)
  })
})

const kibibyte = 1024
const mebibyte = 1024 * kibibyte
const longest = 25 * mebibyte
const longBounds: BodyBounds = { bytesMax: longest, tooLong: 'body_too_large' }

const filled = (length: number, from = 0) =>
  Uint8Array.from({ length }, (_none, index) => (from + index) % 251)

function postPieces(
  pieces: readonly Uint8Array[],
  headers: Record<string, string> = {},
  ends = true,
): Request {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      if (ends) controller.close()
    },
  })
  return new Request('http://localhost/', { method: 'POST', body, headers })
}

async function readLong(request: Request, budget: BodyBudget) {
  const incoming = checkBodyHeaders(request, longBounds, { owner: 'a', sourceOf: () => 'a' })
  if (incoming.kind === 'error') throw new Error(incoming.message)
  const takenBefore = budget.taken
  const body = await readBody(request, incoming, budget)
  const takenAfter = budget.taken
  budget.free(incoming)
  return { body, takenBefore, takenAfter }
}

describe('readBody of pieces', () => {
  test.each([
    ['no piece', []],
    ['one byte', [1]],
    ['bytes one by one', Array<number>(300).fill(1)],
    ['a page', [16 * kibibyte]],
    ['pieces across pages', [16 * kibibyte - 1, 2, 16 * kibibyte, 40 * kibibyte, 0, 5]],
    ['pieces larger than a page', [100_000, 3 * mebibyte]],
  ])('readBody: returns all pieces in order for %s', async (_case, lengths) => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    let length = 0
    const pieces = lengths.map((pieceLength) => {
      const piece = filled(pieceLength, length)
      length += pieceLength
      return piece
    })
    const { body, takenBefore, takenAfter } = await readLong(postPieces(pieces), budget)
    if (isApiError(body)) throw new Error(body.message)
    expect(Buffer.compare(Buffer.from(body), filled(length))).toBe(0)
    expect([takenBefore, takenAfter, budget.taken]).toEqual([0, length, 0])
  })

  test('readBody: charges no bytes for a declared length, and charges whole pages once bytes arrive', async () => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte, pace: { pauseMsMax: 50 } })
    const request = postPieces([filled(20 * kibibyte)], { 'content-length': String(longest) }, false)
    const reading = readLong(request, budget)
    const takenMost = await poll(() => budget.taken || undefined, within)
    const { body, takenBefore, takenAfter } = await reading
    expect(body).toMatchObject({ code: 'invalid_request', message: 'The body was sent too slowly' })
    expect([takenBefore, takenMost, takenAfter]).toEqual([0, 20 * kibibyte, 0])
  })

  test('readBody: a body shorter than its declared length causes 400', async () => {
    const request = postPieces([filled(70_000)], { 'content-length': '70001' })
    expect((await readLong(request, new BodyBudget({ bytesMax: mebibyte }))).body).toMatchObject({
      code: 'invalid_request',
      message: 'The connection ended before the whole body had arrived',
    })
  })

  test('readBody: an unfinished body above the budget causes `body_dropped` and closes the connection', async () => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    budget.grow(holding('b'), 40 * mebibyte, 0)
    const { body } = await readLong(postPieces([filled(65 * kibibyte), filled(mebibyte)], {}, false), budget)
    expect(body).toMatchObject({
      code: 'body_dropped',
      headers: { 'Retry-After': '1', Connection: 'close' },
    })
    expect(budget.taken).toBe(40 * mebibyte)
  })

  test.each<[string, readonly Uint8Array[], Record<string, string>]>([
    ['without a length', [filled(mebibyte)], {}],
    ['with its last piece', [filled(30), filled(mebibyte)], { 'content-length': String(mebibyte + 30) }],
  ])('readBody: a complete body above the budget causes `overloaded`: %s', async (_case, pieces, headers) => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    budget.grow(holding('b'), 40 * mebibyte - 8 * kibibyte, 0)
    const { body } = await readLong(postPieces(pieces, headers), budget)
    expect(body).toMatchObject({ code: 'overloaded', headers: { 'Retry-After': '1' } })
  })

  test.each<[string, Partial<Pace>, 'read' | 'invalid_request']>([
    ['aborts a body below the minimum rate', { pauseMsMax: 0, bytesPerSecondMin: 1e15 }, 'invalid_request'],
    ['aborts a body past the longest time', { longMsMax: 0 }, 'invalid_request'],
    ['does not apply the deadline of a short body to a long body', { shortMsMax: 0 }, 'read'],
  ])('readBody: %s', async (_case, pace, code) => {
    const budget = new BodyBudget({ bytesMax: mebibyte, pace })
    const pieces = code === 'read' ? [filled(70_000), filled(30_000)] : [filled(70_000)]
    const { body } = await readLong(postPieces(pieces, { 'content-length': '100000' }, false), budget)
    expect(isApiError(body) ? body.code : 'read').toBe(code)
    expect(budget.taken).toBe(0)
  })

  test('readBody: cancels the stream of a refused body', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(filled(mebibyte)),
      cancel: () => resolve('cancelled'),
    })
    const request = new Request('http://localhost/', { method: 'POST', body })
    expect((await readLong(request, new BodyBudget({ bytesMax: 48 * mebibyte }))).body).toMatchObject({
      code: 'body_too_large',
    })
    expect(await promise).toBe('cancelled')
  })
})

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

const route: AdmittingRoute<string> = {
  method: 'POST',
  path: '/:slug',
  access: {
    admit: ({ params: { slug = '' } }) => ({
      kind: 'admitted',
      admitted: slug,
      tenant: slug,
      bodyBytesMax: longest,
    }),
  },
  handle: ({ body }) => ({
    kind: 'answer',
    status: 200,
    body: String(body.length),
    outcome: 'done',
  }),
}

function start(pace: Partial<Pace> = {}) {
  const budget = new BodyBudget({ bytesMax: 48 * mebibyte, pace })
  const app = createServer<never, never>({
    routes: [route],
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: () => undefined,
    onAnswered: () => undefined,
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anonymous: budget },
  })
  const server = listen(app, 0, '127.0.0.1')
  open.push(server)
  const { port } = server
  const send = (slug: string, length: number) =>
    fetch(`http://127.0.0.1:${port}/${slug}`, { method: 'POST', body: new Uint8Array(length) })
  return { budget, port, send }
}

const chunked = 'Transfer-Encoding: chunked'

/** Sends a head, and a body's begin. */
async function begin(port: number, slug: string, length: string, body = '') {
  const { promise, resolve } = Promise.withResolvers<string>()
  let received = ''
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data: (_socket, bytes) => {
        received += bytes.toString()
      },
      close: () => resolve(received),
    },
  })
  socket.write(`POST /${slug} HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\r\n${body}`)
  return { socket, closed: promise }
}

const within = { deadlineMs: 10_000 }
const slugs = ['one', 'two', 'three']

describe('slow unauthenticated callers', () => {
  test('body budget: each slow chunked body is charged 1 KiB, and other bodies are served', async () => {
    const { budget, port, send } = start()
    const slow = await Promise.all(
      slugs.flatMap((slug) => Array.from({ length: 10 }, () => begin(port, slug, chunked, '1\r\nx\r\n'))),
    )
    const held = slow.length * kibibyte
    expect(await poll(() => budget.taken === held || undefined, within)).toBe(true)
    for (const slug of ['four', 'one']) {
      expect(await (await send(slug, 100)).text()).toBe('100')
      expect(await (await send(slug, longest)).text()).toBe(String(longest))
    }
    for (const { socket } of slow) socket.end()
    expect(await poll(() => budget.taken === 0 || undefined, within)).toBe(true)
  })

  test('body budget: a declared body that never arrives is charged no bytes, and its connection is closed', async () => {
    const { budget, port, send } = start({ pauseMsMax: 100 })
    const silent = await Promise.all(slugs.map((slug) => begin(port, slug, `Content-Length: ${longest}`)))
    expect(await (await send('one', longest)).text()).toBe(String(longest))
    for (const { closed } of silent) {
      const received = await closed
      expect(received).toStartWith('HTTP/1.1 400')
      expect(received).toContain('too slowly')
    }
    expect(budget.taken).toBe(0)
  })
})

describe('charges of unfinished bodies', () => {
  test.each([
    ['cut off', `Content-Length: ${longest}`, 'x'.repeat(100)],
    ['cut off between chunks', chunked, '1\r\nx\r\n'],
  ])('body budget: releases the charge of a body that is %s', async (_case, length, body) => {
    const { budget, port } = start()
    const { socket } = await begin(port, 'one', length, body)
    expect(await poll(() => budget.taken > 0 || undefined, within)).toBe(true)
    socket.terminate()
    expect(await poll(() => budget.taken === 0 || undefined, within)).toBe(true)
  })

  test('body budget: releases the charge of a body past its deadline', async () => {
    const { budget, port } = start({ pauseMsMax: 100 })
    const { closed } = await begin(port, 'one', chunked, '1\r\nx\r\n')
    expect(await closed).toContain('too slowly')
    expect(budget.taken).toBe(0)
  })

  test('body budget: releases the charge of a body that later exceeds the budget', async () => {
    const { budget, send } = start()
    const other = holding('other')
    budget.grow(other, 40 * mebibyte, 0)
    const refused = await send('one', 2 * mebibyte)
    expect([refused.status, refused.headers.get('connection')]).toEqual([503, 'close'])
    expect(budget.taken).toBe(other.bytes)
    expect((await send('one', 16 * kibibyte)).status).toBe(200)
  })

  test('body budget: releases the charge of a body once the response is sent', async () => {
    const { budget, send } = start()
    expect(await (await send('one', 3 * mebibyte)).text()).toBe(String(3 * mebibyte))
    expect(budget.taken).toBe(0)
  })
})

test('readBody: a body that arrives completely together with the request head is charged without being registered as unfinished', async () => {
  const budget = new BodyBudget({ bytesMax: mebibyte })
  let registered = 0
  budget.begin = () => {
    registered += 1
  }
  const { body, takenAfter } = await readLong(
    postPieces([filled(1_000)], { 'content-length': '1000' }),
    budget,
  )
  expect([isApiError(body), takenAfter, budget.taken, registered]).toEqual([false, 1_000, 0, 0])
})
