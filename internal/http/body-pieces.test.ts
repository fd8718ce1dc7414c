import { afterEach, describe, expect, test } from 'bun:test'
import { apiError } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { holding } from '#test/support/body-holding.ts'
import { type BodyBounds, readBody, roomFor } from './body.ts'
import { BodyBudget, type Pace } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import type { AdmittingRoute } from './route.ts'
import { createServer } from './server.ts'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte
const longest = 25 * mebibyte
const bounds: BodyBounds = { bytesMax: longest, tooLong: 'body_too_large' }

const filled = (length: number, from = 0) =>
  Uint8Array.from({ length }, (_none, index) => (from + index) % 251)

function post(pieces: readonly Uint8Array[], headers: Record<string, string> = {}, ends = true): Request {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      if (ends) controller.close()
    },
  })
  return new Request('http://localhost/', { method: 'POST', body, headers })
}

async function read(request: Request, budget: BodyBudget) {
  const room = roomFor(request, bounds, { owner: 'a', sourceOf: () => 'a' })
  if (room.kind === 'error') throw new Error(room.message)
  const takenBefore = budget.taken
  const body = await readBody(request, room, budget)
  const takenAfter = budget.taken
  budget.free(room)
  return { body, takenBefore, takenAfter }
}

describe('a body in pieces', () => {
  test.each([
    ['none', []],
    ['one byte', [1]],
    ['bytes one by one', Array<number>(300).fill(1)],
    ['a page', [16 * kibibyte]],
    ['across pages', [16 * kibibyte - 1, 2, 16 * kibibyte, 40 * kibibyte, 0, 5]],
    ['far more than a page', [100_000, 3 * mebibyte]],
  ])('comes whole and in order: %s', async (_case, lengths) => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    let length = 0
    const pieces = lengths.map((pieceLength) => {
      const piece = filled(pieceLength, length)
      length += pieceLength
      return piece
    })
    const { body, takenBefore, takenAfter } = await read(post(pieces), budget)
    if (body.kind === 'error') throw new Error(body.message)
    expect(Buffer.compare(Buffer.from(body.body), filled(length))).toBe(0)
    expect([takenBefore, takenAfter, budget.taken]).toEqual([0, length, 0])
  })

  test('holds nothing of its declared length until bytes come, and their pages then', async () => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte, pace: { pauseMsMax: 50 } })
    const request = post([filled(20 * kibibyte)], { 'content-length': String(longest) }, false)
    const reading = read(request, budget)
    const takenMost = await poll(() => budget.taken || undefined, within)
    const { body, takenBefore, takenAfter } = await reading
    expect(body).toMatchObject({ code: 'invalid_request', message: 'The body was sent too slowly' })
    expect([takenBefore, takenMost, takenAfter]).toEqual([0, 20 * kibibyte, 0])
  })

  test('that is over before its declared length has broken off', async () => {
    const request = post([filled(70_000)], { 'content-length': '70001' })
    expect((await read(request, new BodyBudget({ bytesMax: mebibyte }))).body).toMatchObject({
      code: 'invalid_request',
      message: 'The body broke off',
    })
  })

  test('that finds no room left is refused while it comes, and its connection with it', async () => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    budget.grow(holding('b'), 40 * mebibyte, 0)
    const { body } = await read(post([filled(65 * kibibyte), filled(mebibyte)], {}, false), budget)
    expect(body).toMatchObject({
      code: 'body_dropped',
      headers: { 'Retry-After': '1', Connection: 'close' },
    })
    expect(budget.taken).toBe(40 * mebibyte)
  })

  test.each<[string, readonly Uint8Array[], Record<string, string>]>([
    ['without a length', [filled(mebibyte)], {}],
    ['with its last piece', [filled(30), filled(mebibyte)], { 'content-length': String(mebibyte + 30) }],
  ])('that finds no room when it is complete is refused as overload: %s', async (_case, pieces, headers) => {
    const budget = new BodyBudget({ bytesMax: 48 * mebibyte })
    budget.grow(holding('b'), 40 * mebibyte - 8 * kibibyte, 0)
    const { body } = await read(post(pieces, headers), budget)
    expect(body).toMatchObject({ code: 'overloaded', headers: { 'Retry-After': '1' } })
  })

  test.each<[string, Partial<Pace>, 'read' | 'invalid_request']>([
    ['below the rate is given up', { pauseMsMax: 0, bytesPerSecondMin: 1e15 }, 'invalid_request'],
    ['is given up after the longest time', { longMsMax: 0 }, 'invalid_request'],
    ['is not held to the time of a short one', { shortMsMax: 0 }, 'read'],
  ])('%s', async (_case, pace, code) => {
    const budget = new BodyBudget({ bytesMax: mebibyte, pace })
    const pieces = code === 'read' ? [filled(70_000), filled(30_000)] : [filled(70_000)]
    const { body } = await read(post(pieces, { 'content-length': '100000' }, false), budget)
    expect(body.kind === 'error' ? body.code : body.kind).toBe(code)
    expect(budget.taken).toBe(0)
  })

  test('is asked for no more once it is refused', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(filled(mebibyte)),
      cancel: () => resolve('cancelled'),
    })
    const request = new Request('http://localhost/', { method: 'POST', body })
    expect((await read(request, new BodyBudget({ bytesMax: 48 * mebibyte }))).body).toMatchObject({
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
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anybody: budget },
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

describe('callers who know slugs and send next to nothing', () => {
  test('hold 1 KiB for each body without a length, and others are served', async () => {
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

  test('hold nothing for a body of 25 MiB that never comes, and its connection is closed', async () => {
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

describe('room that was taken while a body came is given back', () => {
  test.each([
    ['was cut off', `Content-Length: ${longest}`, 'x'.repeat(100)],
    ['was cut off between chunks', chunked, '1\r\nx\r\n'],
  ])('when it %s', async (_case, length, body) => {
    const { budget, port } = start()
    const { socket } = await begin(port, 'one', length, body)
    expect(await poll(() => budget.taken > 0 || undefined, within)).toBe(true)
    socket.terminate()
    expect(await poll(() => budget.taken === 0 || undefined, within)).toBe(true)
  })

  test('when its time is over', async () => {
    const { budget, port } = start({ pauseMsMax: 100 })
    const { closed } = await begin(port, 'one', chunked, '1\r\nx\r\n')
    expect(await closed).toContain('too slowly')
    expect(budget.taken).toBe(0)
  })

  test('when it found no more', async () => {
    const { budget, send } = start()
    const other = holding('other')
    budget.grow(other, 40 * mebibyte, 0)
    const refused = await send('one', 2 * mebibyte)
    expect([refused.status, refused.headers.get('connection')]).toEqual([503, 'close'])
    expect(budget.taken).toBe(other.bytes)
    expect((await send('one', 16 * kibibyte)).status).toBe(200)
  })

  test('when it was answered', async () => {
    const { budget, send } = start()
    expect(await (await send('one', 3 * mebibyte)).text()).toBe(String(3 * mebibyte))
    expect(budget.taken).toBe(0)
  })
})
