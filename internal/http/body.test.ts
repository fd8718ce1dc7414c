import { describe, expect, test } from 'bun:test'
import { holding } from '#test/support/body-holding.ts'
import { type BodyBounds, parseJson, readBody, roomFor } from './body.ts'
import { BodyBudget } from './body-budget.ts'

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
  const room = roomFor(request, { ...bounds, ...changes }, owner)
  if (room.kind === 'error') return room
  const body = await readBody(request, room, budget)
  budget.free(room)
  return body.kind === 'read' ? Buffer.from(body.body).toString() : body
}

describe('a body', () => {
  test.each([
    ['of a declared length', post('0123456789', { 'content-length': '10' }), '0123456789'],
    ['that comes in pieces', post(chunks('01234', '56789')), '0123456789'],
    ['that is empty', post('', { 'content-length': '0' }), ''],
    ['that is none', post(null), ''],
    ['said to be as it is', post('a', { 'content-length': '1', 'content-encoding': 'identity' }), 'a'],
  ])('%s is read', async (_case, request, text) => {
    expect(await read(request)).toBe(text)
  })

  test.each([
    ['that says it is too long', post('a', { 'content-length': '11' }), 'longer than 10 bytes'],
    ['whose length is no number', post('a', { 'content-length': 'ten' }), 'longer than 10 bytes'],
    ['that grows too long', post(chunks('01234', '567890')), 'longer than 10 bytes'],
    ['that is compressed', post('a', { 'content-encoding': 'gzip' }), 'Content-Encoding'],
    ['that breaks off in pieces', post(broken()), 'broke off'],
    ['that breaks off before its length', post(broken(), { 'content-length': '5' }), 'broke off'],
  ])('%s is refused with 400', async (_case, request, text) => {
    expect(await read(request)).toMatchObject({
      kind: 'error',
      code: 'invalid_request',
      message: expect.stringContaining(text),
    })
  })

  test.each([
    ['that says it is too long', post('a', { 'content-length': '11' })],
    ['that grows too long', post(chunks('01234', '567890'))],
  ])('%s is refused with 413 where its route says so', async (_case, request) => {
    expect(await read(request, new BodyBudget({ bytesMax: 100 }), { tooLong: 'body_too_large' })).toEqual({
      kind: 'error',
      code: 'body_too_large',
      message: 'The body must not be longer than 10 bytes',
      headers: { Connection: 'close' },
    })
  })

  test('that is too long also ends the connection, which the rest is still on', async () => {
    expect(await read(post('a', { 'content-length': '11' }))).toMatchObject({
      headers: { Connection: 'close' },
    })
  })

  test('that stops coming is refused when its time is over', async () => {
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

describe('the budget', () => {
  test('refuses what has no room, with when to come again, until room is given back', async () => {
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
  ])('is whole again after a body that was %s', async (_case, request) => {
    const budget = new BodyBudget({ bytesMax })
    await read(request(), budget)
    expect(budget.taken).toBe(0)
  })

  test('holds on to a body that was read, at its own length, until its room is freed', async () => {
    const budget = new BodyBudget({ bytesMax })
    const request = post(chunks('012', '3'))
    const room = roomFor(request, bounds, owner)
    if (room.kind === 'error') throw new Error(room.message)
    await readBody(request, room, budget)
    expect(budget.taken).toBe(4)
    budget.free(room)
    budget.free(room)
    expect(budget.taken).toBe(0)
  })
})

describe('JSON', () => {
  test('keeps its text beside its value', () => {
    const text = '{"a": 1.10, "😀":820982911946154508}'
    expect(parseJson(Buffer.from(text))).toEqual({ kind: 'json', text, value: JSON.parse(text) })
  })

  test.each([
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'UTF-8'],
    ['UTF-16', Buffer.from('{}', 'utf16le'), 'JSON'],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'UTF-8'],
    ['a byte order mark', Buffer.from('\ufeff{}'), 'without byte order mark'],
    ['nothing', Buffer.from(''), 'JSON'],
    ['half an object', Buffer.from('{"a":'), 'JSON'],
    ['two values', Buffer.from('{}{}'), 'JSON'],
    ['a comma too many', Buffer.from('{"a":1,}'), 'JSON'],
    ['NaN', Buffer.from('NaN'), 'JSON'],
  ])('is not %s', (_case, bytes, text) => {
    expect(parseJson(bytes)).toEqual({
      kind: 'error',
      code: 'invalid_request',
      message: expect.stringMatching(new RegExp(`^The body must be .*${text}`)),
    })
  })
})
