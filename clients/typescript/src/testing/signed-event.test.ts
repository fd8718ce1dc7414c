import { describe, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { eventCatalogue } from '../../../../internal/providers/index.ts'
import type { EventOf, EventType } from '../event.ts'
import { type LatchkeyEvent, receiver } from '../webhooks.ts'
import { signedEvent } from './signed-event.ts'

const secret = `whsec_${btoa('a'.repeat(32))}`
const samples = eventCatalogue.flatMap(({ type, providers }) =>
  providers.map(({ provider, providerRawType, example }) => ({
    type: type as EventType,
    provider: provider as never,
    providerRawType,
    payload: example,
  })),
)

test('signed event: the receiver and standardwebhooks accept every type of the catalogue from each of its providers', async () => {
  const handled: LatchkeyEvent[] = []
  const receive = receiver({ secrets: [secret] }, (event) => handled.push(event))
  const library = new Webhook(secret)
  const sent: object[] = []
  for (const { type, provider } of samples) {
    const delivery = signedEvent(type, { secret, provider })
    expect((await receive(delivery.toRequest())).status).toBe(204)
    expect(library.verify(delivery.body, { ...delivery.headers })).toEqual(delivery.event)
    sent.push(delivery.event)
  }
  expect(handled as object[]).toEqual(sent)
  const sampled = handled.map(({ type, provider, providerRawType, payload }) => {
    return { type, provider, providerRawType, payload }
  })
  expect(sampled as object[]).toEqual(samples)
  expect(new Set(handled.map(({ id }) => id)).size).toBe(samples.length)
})

describe('signed event', () => {
  test('signed event: its type narrows the provider and the raw type, like the event type in the handler', () => {
    const { event } = signedEvent('wiki.updated', { secret })
    const same: EventOf<'wiki.updated'> = event
    const listed: 'gollum' | undefined = event.provider === 'codehost' ? event.providerRawType : undefined
    expect(listed).toBe('gollum')
    expect(same.type satisfies 'wiki.updated').toBe('wiki.updated')
    // @ts-expect-error -- no provider of this type
    expect(() => signedEvent('wiki.updated', { secret, provider: 'card' })).toThrow(
      'the catalogue has no "wiki.updated" of provider "card"',
    )
    // @ts-expect-error -- not in the catalogue
    expect(() => signedEvent('constructor', { secret })).toThrow(
      'the catalogue has no event type "constructor"',
    )
  })

  test('signed event: changes of the payload are merged into the sample', () => {
    const plain = signedEvent('wiki.updated', { secret }).event.payload
    const sender = plain['sender'] as object
    const changes = { sender: { login: 'ada' }, pages: [], organization: undefined, extra: null }
    const { organization: _, ...others } = plain
    expect(signedEvent('wiki.updated', { secret, payload: changes }).event.payload).toEqual({
      ...others,
      sender: { ...sender, login: 'ada' },
      pages: [],
      extra: null,
    })
  })

  test('signed event: fields other than the payload can be set', () => {
    const at = new Date('2026-11-10T08:40:01.224Z')
    const occurredAt = new Date('2026-11-09T00:00:00Z')
    const fields = { id: 'evt_1', tenantId: 'ten_1', headers: { 'latchkey-origin': 'test' } }
    const { event, headers } = signedEvent('account.configuration_updated', {
      ...fields,
      secret,
      at,
      occurredAt,
      providerRawType: 'v2.core.account[configuration.recipient].updated',
    })
    expect(event).toMatchObject({
      ...fields,
      occurredAt: occurredAt.toISOString(),
      receivedAt: at.toISOString(),
      providerRawType: 'v2.core.account[configuration.recipient].updated',
    })
    expect(headers).toMatchObject({ 'webhook-id': 'evt_1', 'webhook-timestamp': '1794300001' })
  })

  test.each([
    ['another secret', { secret: `whsec_${btoa('b'.repeat(32))}` }],
    ['a time of an hour ago', { secret, at: new Date(Date.now() - 3_600_000) }],
  ])('signed event: the receiver refuses an event with %s', async (_what, options) => {
    const receive = receiver({ secrets: [secret] }, () => undefined)
    expect((await receive(signedEvent('payment.succeeded', options).toRequest())).status).toBe(400)
  })

  test('signed event: can be passed as the second argument of `fetch`', async () => {
    const receive = receiver({ secrets: [secret] }, () => undefined)
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: receive })
    const response = await fetch(server.url, signedEvent('payment.succeeded', { secret }))
    expect(response.status).toBe(204)
    await server.stop(true)
  })
})
