import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId } from '#internal/base/index.ts'
import { createOutbound, type Outbound } from '#internal/egress/index.ts'
import { noticeSamples } from '#internal/events/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { slack } from './slack.ts'

let receiver: CallbackReceiver
let outbound: Outbound
beforeEach(() => {
  receiver = startReceiver({ accepts: 'anything' })
  outbound = createOutbound({ cidrsMax: ['127.0.0.0/8'], ports: 'any' })
})
afterEach(async () => {
  outbound.close()
  await receiver.stop()
})

const nowMs = 1_700_000_000_000
const content = {
  id: createEventId(nowMs, 90),
  tenantId: someTenantId(),
  provider: 'latchkey' as const,
  rawType: 'latchkey.callback.suspended',
  type: 'latchkey.callback.suspended',
  occurredAtMs: nowMs,
  receivedAtMs: nowMs,
  headers: '{}',
  payload: JSON.stringify(noticeSamples['latchkey.callback.suspended'].sample),
}

/** Sends a notification to the receiver, in whose URL the path is a secret. */
function sent(notification: Partial<typeof content> = {}, { timeoutMs = 5_000, url = receiver.url } = {}) {
  const prepared = slack.prepare({
    url,
    shownUrl: `${new URL(url).origin}/…`,
    allowedCIDRs: ['127.0.0.0/8'],
    timeoutMs,
    signingSecrets: [],
  })
  return prepared.send(outbound, {
    content: { ...content, ...notification },
    nowMs,
    hops: '1',
    traceparent: undefined,
  })
}

async function messageOf(notification: Partial<typeof content>) {
  await sent(notification)
  const [call] = await receiver.received(1)
  return JSON.parse(call?.body ?? '') as { text: string; blocks: { text: { text: string } }[] }
}

describe('slack: message', () => {
  test.each([
    ['a notification', {}, '(shops/acme)', '*reason*: gone'],
    ['an unknown type', { type: 'latchkey.new' }, 'latchkey.new (shops/acme)', '*reason*: gone'],
    [
      'characters that Slack interprets',
      { payload: '{"reason":"<!channel> & co"}' },
      '(/)',
      '&lt;!channel&gt; &amp; co',
    ],
    ['a nested fact', { payload: '{"limit":{"name":"locks"}}' }, '(/)', '*limit*: {"name":"locks"}'],
    ['a payload that is no object', { payload: '[]' }, '(/)', 'suspended'],
  ])(
    'slack: the message of %s has a summary and the facts of the notification',
    async (_what, notification, text, facts) => {
      const message = await messageOf(notification)
      expect(Object.keys(message)).toEqual(['text', 'blocks'])
      expect(message.text).toContain(text)
      expect(message.blocks[0]?.text.text).toContain(facts)
    },
  )

  test.each(Object.entries(noticeSamples))(
    'slack: the message of %s has a title of its own',
    async (type, { sample }) => {
      const { text } = await messageOf({ type, payload: JSON.stringify(sample) })
      expect(text).toMatch(/^:[a-z_]+: [A-Z]/)
    },
  )

  test('slack: a long fact is cut to 500 characters', async () => {
    const { blocks } = await messageOf({ payload: JSON.stringify({ reason: 'x'.repeat(9_000) }) })
    expect(blocks[0]?.text.text.match(/x+/)?.[0]).toHaveLength(500)
  })
})

describe('slack: call', () => {
  test('slack: the call is not signed and does not contain the event', async () => {
    await sent()
    const [call] = await receiver.received(1)
    expect([...(call?.headers.keys() ?? [])].filter((name) => /webhook|latchkey/.test(name))).toEqual([])
    expect(call?.body).not.toContain(content.id)
    expect(call?.body).not.toContain(content.tenantId)
  })

  test.each([
    ['refuses', () => new Response('invalid_token', { status: 403 }), { kind: 'answered', status: 403 }],
    [
      'answers too late',
      () => Bun.sleep(1_000).then(() => new Response()),
      { kind: 'failed', cause: 'timeout' },
    ],
  ])(
    'slack: a receiver that %s does not reject, and the record of the call keeps nothing',
    async (_what, answer, result) => {
      receiver.answer(answer)
      const { result: actual, request } = await sent({}, { timeoutMs: 300 })
      expect(actual).toMatchObject(result)
      expect(request).toBeUndefined()
      expect(JSON.stringify(actual)).not.toContain('/hook')
    },
  )

  test('slack: a receiver that closes the connection does not reject, and the record of the call keeps nothing', async () => {
    await using server = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: { data: (socket) => socket.terminate() },
    })
    const { result, request } = await sent({}, { url: `http://127.0.0.1:${server.port}/hook` })
    expect(result.kind).toBe('failed')
    expect(request).toBeUndefined()
    expect(JSON.stringify(result)).not.toContain('/hook')
  })

  test('slack: nothing can be sent while the Secret with the URL is missing', () => {
    const settings = { shownUrl: '', allowedCIDRs: [], timeoutMs: 1_000, signingSecrets: [] }
    expect(slack.prepare({ ...settings, url: '' }).isSendable).toBe(false)
    expect(slack.prepare({ ...settings, url: receiver.url }).isSendable).toBe(true)
  })
})
