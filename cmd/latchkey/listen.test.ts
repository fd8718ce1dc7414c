import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { acceptEvents } from '#test/support/accepted-event.ts'
import { type CommandLab, startCommandLab } from '#test/support/command-lab.ts'
import { latchkey } from '#test/support/latchkey.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { until } from '#test/support/until.ts'

interface Call {
  readonly headers: Record<string, string>
  readonly body: string
}

let lab: CommandLab
let receiver: Bun.Server<undefined>
let calls: Call[] = []
let status = 204
beforeAll(async () => {
  lab = await startCommandLab()
  receiver = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      calls.push({ headers: Object.fromEntries(request.headers), body: await request.text() })
      return new Response(null, { status })
    },
  })
}, 30_000)
afterAll(async () => {
  await receiver.stop(true)
  await lab.close()
})
beforeEach(() => {
  calls = []
  status = 204
})

const payload = '{"id":"p-1",\n "amount":820982911946154508}'
function accept(count: number, fields: Parameters<typeof receivedEvent>[0] = {}) {
  const own = { tenantId: lab.seeded.acme.tenantId, payload, payloadBytes: payload.length, ...fields }
  return acceptEvents(
    lab.backoffice.pool,
    Array.from({ length: count }, () => receivedEvent(own)),
  )
}

const url = () => `127.0.0.1:${receiver.port}/webhooks`
const named = () => `l-${crypto.randomUUID().slice(0, 8)}`

describe('latchkey listen', () => {
  test('latchkey listen: forwards events, signed with the secret that it prints', async () => {
    const name = named()
    const running = lab.run('listen', '--forward-to', url(), '--name', name, '--max', '2', '--events', 'a.*')
    await until('the subscription', async () => (await subscriptions()).includes(name))
    await accept(1, { type: 'b.c' })
    const ids = await accept(2, { type: 'a.b' })
    const { code, out, err } = await running
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const secret = /^Signing secret of this listener: (whsec_\S+)$/m.exec(out)?.[1] ?? ''
    for (const { body, headers } of calls) new Webhook(secret).verify(body, headers)
    expect(calls.map(({ headers }) => headers['webhook-id'])).toEqual(ids.toSorted())
    expect(calls[0]?.body).toContain('"amount":820982911946154508')
    expect(out).toMatch(new RegExp(`${ids[0]} +generic +a\\.b +204 +[0-9]+ ms`))
  }, 20_000)

  test('latchkey listen: goes on where it ended, and --skip begins with new events', async () => {
    const args = ['listen', '--forward-to', url(), '--name', named(), '--events', 'go.on', '--max', '1']
    const first = lab.run(...args, '--from', '1m')
    const [one] = await accept(1, { type: 'go.on' })
    await first
    const [missed] = await accept(1, { type: 'go.on' })
    await lab.run(...args)
    expect(calls.map(({ headers }) => headers['webhook-id'])).toEqual([one, missed])
    await accept(1, { type: 'go.on' })
    const skipping = lab.run(...args, '--skip')
    await Bun.sleep(500)
    const [fresh] = await accept(1, { type: 'go.on' })
    await skipping
    expect(calls.at(-1)?.headers['webhook-id']).toBe(fresh)
    expect(calls).toHaveLength(3)
  }, 30_000)

  test('latchkey listen: keeps failed events, and sends them again on request', async () => {
    status = 500
    let type: (line: string) => void = () => undefined
    const name = named()
    const running = latchkey(
      ['listen', '--forward-to', url(), '--name', name, '--events', 'fail.ed', '--max', '2'],
      lab.env(),
      {
        onLine(listener) {
          type = listener
          return () => undefined
        },
      },
    )
    await until('the subscription', async () => (await subscriptions()).includes(name))
    const [failed] = await accept(1, { type: 'fail.ed' })
    await until('the first call', () => calls.length === 1)
    status = 204
    await Bun.sleep(200)
    type('r')
    await until('the second call', () => calls.length === 2)
    await accept(1, { type: 'fail.ed' })
    const { out } = await running
    expect(calls.slice(0, 2).map(({ headers }) => headers['webhook-id'])).toEqual([failed, failed])
    expect(out).toContain('  500  ')
    expect(out).toContain('Sending 1 again.')
  }, 20_000)

  test.each([
    [['listen'], 2, "required option '--forward-to <url>' not specified"],
    [['listen', '--forward-to', 'ftp://localhost:3000'], 2, 'It has to be an http or https URL'],
    [['listen', '--forward-to', 'http://127.0.0.1:1/', '--events', 'Payment'], 1, 'types'],
  ])('latchkey %j: ends with exit code %d and says what is wrong', async (args, code, text) => {
    const found = await lab.run(...args)
    expect([found.code, found.err]).toEqual([code, expect.stringContaining(text)])
  })

  test('latchkey listen: a key that cannot read payloads is refused', async () => {
    const found = await latchkey(['listen', '--forward-to', url(), '--name', named()], lab.env('rival'))
    expect([found.code, found.err]).toEqual([4, expect.stringContaining('events and payloads:read')])
  })
})

describe('latchkey events tail', () => {
  test('latchkey events tail: prints events as they come, as lines or as JSON', async () => {
    const name = named()
    const tail = lab.run('events', 'tail', '--name', name, '--events', 'ta.il', '--max', '1', '--json')
    await until('the subscription', async () => (await subscriptions()).includes(name))
    await Bun.sleep(300)
    const [id] = await accept(1, { type: 'ta.il' })
    const { code, out } = await tail
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ id, type: 'ta.il', payload: { id: 'p-1' } })
    const text = await lab.run(
      'events',
      'tail',
      '--name',
      name,
      '--from',
      '1m',
      '--events',
      'ta.il',
      '--max',
      '1',
    )
    expect(text.out).toMatch(new RegExp(`^20\\S+Z  ${id}  generic  ta[.]il\\n$`))
  }, 20_000)
})

async function subscriptions(): Promise<string[]> {
  const { rows } = await lab.backoffice.pool.query<{ name: string }>('SELECT name FROM subscriptions')
  return rows.map(({ name }) => name)
}
