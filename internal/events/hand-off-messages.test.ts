import { describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { decodeDue, dueOf, encodeDue, HandedNews, storedOf } from './hand-off.ts'
import { callbackQueueOf } from './model.ts'

const tenantOf = (name: number | string) => `ten_${String(name).padStart(26, '0')}` as TenantId
const [tenantA, tenantB] = [tenantOf('a'), tenantOf('b')]
const tenants = [tenantA, tenantB]
const [queueA, queueB] = [callbackQueueOf(tenantA), callbackQueueOf(tenantB)]

describe('messages of due work', () => {
  test('due message: a message about few tenants lists them', () => {
    expect(decodeDue(encodeDue([queueA, queueB]))).toEqual([queueA, queueB])
  })

  test('due message: more than fifty tenants are encoded as `all`', () => {
    const ids = Array.from({ length: 51 }, (_, index) => callbackQueueOf(tenantOf(index)))
    expect(decodeDue(encodeDue(ids.slice(0, 50)))).toEqual(ids.slice(0, 50))
    expect(encodeDue(ids)).toBe('*')
    expect(decodeDue('*')).toBe('all')
  })

  test.each([
    ['no JSON', 'ten_a'],
    ['no list', '{"a":1}'],
    ['a list of something else', '[1]'],
    ['an id of another form', `["${tenantOf('a')}"]`],
    ['a destination of another form', `["${tenantOf('a')}/Callback"]`],
    ['a destination that is too long', `["${tenantOf('a')}/${'a'.repeat(33)}"]`],
    ['a mark without an id', '["="]'],
    ['too many', JSON.stringify(Array.from({ length: 51 }, () => 'a'))],
    ['endless', `["${'a'.repeat(5000)}"]`],
  ])('due message: decodes %s as `all`', (_what, message) => {
    expect(decodeDue(message)).toBe('all')
  })
})

test('HandedNews: names tenants in one message, which readers of feeds decode and forwarders ignore', async () => {
  const { promise, resolve } = Promise.withResolvers<string>()
  const news = new HandedNews(async (message) => resolve(message))
  news.add([])
  news.add([queueA])
  news.add([queueB, queueA])
  const decoded = decodeDue(await promise)
  expect(storedOf(decoded)).toEqual(tenants)
  expect(dueOf(decoded)).toEqual([])
})

test('HandedNews: for more than 50 tenants, readers of feeds decode the message as `all`, and forwarders ignore it', async () => {
  const { promise, resolve } = Promise.withResolvers<string>()
  new HandedNews(async (message) => resolve(message)).add(
    Array.from({ length: 51 }, (_, n) => callbackQueueOf(tenantOf(n))),
  )
  const decoded = decodeDue(await promise)
  expect(storedOf(decoded)).toBe('all')
  expect(dueOf(decoded)).toEqual([])
})

test('due message: forwarders and readers of feeds both get the tenants with work', () => {
  const decoded = decodeDue(encodeDue([queueA]))
  expect([dueOf(decoded), storedOf(decoded)]).toEqual([[queueA], tenants.slice(0, 1)])
  expect([dueOf('all'), storedOf('all')]).toEqual(['all', 'all'])
})
