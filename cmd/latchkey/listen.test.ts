import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { startTcpProxy, type TcpProxy } from '#test/faults/tcp-proxy.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { createCa } from '#test/support/stores/pki.ts'
import { until } from '#test/support/until.ts'

interface Call {
  readonly headers: Record<string, string>
  readonly body: string
}

let lab: CommandLab
let receiver: Bun.Server<undefined>
let proxy: TcpProxy
let calls: Call[] = []
let status = 204
beforeAll(async () => {
  lab = await startCommandLab()
  receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: receive })
  proxy = await startTcpProxy(Number(new URL(lab.api.url).port), 'localhost')
}, 30_000)
afterAll(async () => {
  await receiver.stop(true)
  await proxy.close()
  await lab.close()
})
beforeEach(async () => {
  calls = []
  status = 204
  await lab.backoffice.pool.query('TRUNCATE subscriptions')
})

async function receive(request: Request): Promise<Response> {
  calls.push({ headers: Object.fromEntries(request.headers), body: await request.text() })
  return new Response(null, { status })
}

const idsOf = (some: readonly Call[]) => some.map(({ headers }) => headers['webhook-id'])
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

/** Waits until the service holds a subscription for a stream. */
const streams = (name: string) =>
  until(`the stream of ${name}`, async () => {
    const { rowCount } = await lab.backoffice.pool.query(
      'SELECT FROM subscriptions WHERE name = $1 AND held_until > now()',
      [name],
    )
    return rowCount === 1
  })

describe('latchkey listen', () => {
  test('latchkey listen: interprets a number as a port of 127.0.0.1, not as an address', async () => {
    const { port } = new URL(`http://${url()}`)
    const args = ['listen', '--forward-to', port, '--name', named(), '--max', '1']
    const running = lab.run(...args)
    await streams(args[4] ?? '')
    await accept(1, { type: 'a.b' })
    const { code, out } = await running
    expect(code).toBe(0)
    expect(out).toContain(`http://127.0.0.1:${port}`)
  })

  test('latchkey listen: forwards events of the requested types, signed with the printed secret, which is the same in every run', async () => {
    const args = ['listen', '--forward-to', url(), '--name', named(), '--events', 'a.*', '--max', '2']
    const running = lab.run(...args)
    await streams(args[4] ?? '')
    await accept(1, { type: 'b.c' })
    const ids = await accept(2, { type: 'a.b' })
    const { code, out, err } = await running
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const secretOf = (text: string) => /^Signing secret of this listener: (whsec_\S+)$/m.exec(text)?.[1] ?? ''
    for (const { body, headers } of calls) new Webhook(secretOf(out)).verify(body, headers)
    expect(idsOf(calls)).toEqual(ids.toSorted())
    expect(calls[0]?.body).toContain('"amount":820982911946154508')
    expect(out).toMatch(new RegExp(`${ids[0]} +generic +a\\.b +204 +[0-9]+ ms`))
    const again = lab.run(...args)
    await streams(args[4] ?? '')
    await accept(2, { type: 'a.b' })
    expect(secretOf((await again).out)).toBe(secretOf(out))
  }, 20_000)

  test('latchkey listen --json: prints the listener and each call as a line', async () => {
    const name = named()
    const running = lab.run('listen', '--forward-to', url(), '--name', name, '--max', '2', '--json')
    await streams(name)
    const [first] = await accept(1)
    await until('the first call', () => calls.length === 1)
    status = 503
    await accept(1)
    const { code, out, err } = await running
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const lines = out.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { listener: name, forwardTo: `http://${url()}`, signingSecret: expect.stringContaining('whsec_') },
      { id: first, type: 'order.created', status: 204, problem: null, durationMs: expect.any(Number) },
      { status: 503, problem: null },
    ])
  }, 20_000)

  test('latchkey listen: at the end, prints how to send a failed event again', async () => {
    const name = named()
    status = 503
    const running = lab.run('listen', '--forward-to', url(), '--name', name, '--max', '1')
    await streams(name)
    const [id = ''] = await accept(1)
    expect((await running).err).toContain(
      `One event that failed is not sent again: start with --from, or use latchkey events get ${id} --curl.`,
    )
  }, 20_000)

  test('latchkey events get --curl: without a given secret, signs with the secret of the listener', async () => {
    const [id = ''] = await accept(1, { type: 'cu.rl' })
    const args = [
      'listen',
      '--forward-to',
      url(),
      '--from',
      '1h',
      '--max',
      '1',
      '--events',
      'cu.rl',
      '--json',
    ]
    const { signingSecret } = JSON.parse((await lab.run(...args)).out.split('\n')[0] ?? '')
    const printed = await lab.run('events', 'get', id, '--curl', '--to', `http://${url()}`)
    expect(await Bun.$`sh -c ${printed.out}`.nothrow().text()).toContain(' 204 ')
    for (const { body, headers } of calls) new Webhook(signingSecret).verify(body, headers)
    expect(idsOf(calls)).toEqual([id, id])
  }, 20_000)

  test('latchkey listen: each of several concurrent listeners gets a copy of an event, and the delivery to the callback is not affected', async () => {
    const names = [named(), named(), named()]
    const running = names.map((name) =>
      lab.run('listen', '--forward-to', url(), '--name', name, '--max', '3'),
    )
    for (const name of names) await streams(name)
    const ids = await accept(3)
    for (const { code } of await Promise.all(running)) expect(code).toBe(0)
    const times = ids.map((id) => idsOf(calls).filter((each) => each === id).length)
    expect(times).toEqual([3, 3, 3])
    const { rows } = await lab.backoffice.pool.query(
      'SELECT attempts, claims FROM deliveries_due WHERE event_id = ANY ($1)',
      [ids],
    )
    expect(rows).toEqual(ids.map(() => ({ attempts: 0, claims: 0 })))
  }, 20_000)

  test('latchkey listen: a second listener with the same name waits, and prints that it needs another name', async () => {
    const name = named()
    const first = lab.run('listen', '--forward-to', url(), '--name', name, '--max', '1')
    await streams(name)
    let err = ''
    const waiting = latchkey(['listen', '--forward-to', url(), '--name', name, '--max', '1'], lab.env(), {
      complain: (text) => void (err += text),
    })
    await until('the message', () => err.includes(`If another command uses the name ${name}, give one`))
    await accept(1)
    await first
    await until('its turn', () => err.includes('Connected again'))
    await accept(1)
    expect((await waiting).code).toBe(0)
    expect(calls).toHaveLength(2)
  }, 20_000)

  test('latchkey listen: misses nothing while the service is down', async () => {
    const name = named()
    const env = { ...lab.env(), LATCHKEY_URL: `http://127.0.0.1:${proxy.port}` }
    let err = ''
    const running = latchkey(['listen', '--forward-to', url(), '--name', name, '--max', '6'], env, {
      complain: (text) => void (err += text),
    })
    await streams(name)
    const before = await accept(2)
    await until('the first calls', () => calls.length === 2)
    proxy.cut()
    await until('the message', () => err.includes('Trying again.'))
    const meanwhile = await accept(2)
    proxy.heal()
    await until('the missed calls', () => calls.length === 4)
    const after = await accept(2)
    expect((await running).code).toBe(0)
    expect(err).toContain('Connected again.')
    const expected = [before, meanwhile, after].flatMap((ids) => ids.toSorted())
    expect(idsOf(calls)).toEqual(expected)
  }, 30_000)

  test('latchkey listen: continues where it stopped days ago, and --skip begins with new events', async () => {
    const name = named()
    const args = ['listen', '--forward-to', url(), '--name', name, '--max', '1']
    const first = lab.run(...args)
    await streams(name)
    const [one] = await accept(1)
    await first
    const missed = await accept(30)
    // Makes the subscription look 13 days old; the next command creates another subscription.
    await lab.backoffice.pool.query(
      `UPDATE subscriptions SET created_at = created_at - interval '13 days', used_at = used_at - interval '13 days',
         acknowledged_at = acknowledged_at - interval '13 days'`,
    )
    const other = await lab.run('events', 'tail', '--name', named(), '--max', '1', '--from', '1h')
    expect(other.code).toBe(0)
    await lab.run(...args.slice(0, -1), '30')
    expect(idsOf(calls)).toEqual([one, ...missed.toSorted()])
    await accept(1)
    const skipping = lab.run(...args, '--skip')
    await streams(name)
    const [fresh] = await accept(1)
    await skipping
    expect(idsOf(calls).slice(31)).toEqual([fresh])
  }, 30_000)

  test('latchkey listen: listeners that never run again do not use up the maximum number of subscriptions of the tenant', async () => {
    const { pool } = lab.backoffice
    const args = (name: string) => ['events', 'tail', '--name', name, '--max', '1', '--from', '1h']
    await accept(1)
    for (let at = 0; at < 20; at += 1) expect((await lab.run(...args(`old-${at}`))).code).toBe(0)
    const full = await lab.run(...args('new'))
    expect(full.code).toBe(1)
    expect(full.err).toMatch(/^A tenant can have 20 subscriptions: delete one .*latchkey subscriptions list/)
    const past = `created_at = now() - interval '2 days', used_at = now() - interval '2 days', acknowledged_at = NULL, held_until = '-infinity'`
    await pool.query(`UPDATE subscriptions SET ${past} WHERE name <> 'old-7'`)
    expect((await lab.run(...args('new'))).code).toBe(0)
    const left = await lab.json<{ name: string }[]>('subscriptions', 'list')
    expect(left.map(({ name }) => name)).toEqual(['new', 'old-7'])
    const { rows } = await pool.query(
      `SELECT DISTINCT detail->>'cause' AS cause FROM audit WHERE action = 'subscriptions.deleted'`,
    )
    expect(rows).toEqual([{ cause: 'unused' }])
  }, 30_000)

  test('latchkey listen: without --name, uses one name per user and host, and its subscription is kept for 14 days', async () => {
    const env = { ...lab.env(), USER: 'Ada L.' }
    await accept(1)
    const args = ['listen', '--forward-to', url(), '--max', '1', '--from', '1h']
    for (let times = 0; times < 2; times += 1) expect((await latchkey(args, env)).code).toBe(0)
    expect(await lab.json('subscriptions', 'list')).toMatchObject([
      { name: expect.stringMatching(/^listen-ada-l-/), deleteAfterIdleDays: 14 },
    ])
  }, 20_000)

  test('latchkey listen: keeps failed events, and sends them again on a key press', async () => {
    status = 500
    let press: (key: string) => void = () => undefined
    let said = ''
    const name = named()
    const running = latchkey(['listen', '--forward-to', url(), '--name', name, '--max', '2'], lab.env(), {
      isColoured: true,
      say: (text) => void (said += text),
      onKey(listener) {
        press = listener
        return () => undefined
      },
    })
    await streams(name)
    const [failed] = await accept(1)
    await until('the shown failure', () => said.includes('\u001b[31m500\u001b[39m  '))
    status = 204
    press('x')
    press('r')
    await until('the second call', () => calls.length === 2)
    await accept(1)
    const { out, err } = await running
    expect(idsOf(calls).slice(0, 2)).toEqual([failed, failed])
    expect(out).toContain('Press r to send failed events again.')
    expect(err).toContain('Sending 1 again.')
  }, 20_000)

  test('latchkey listen --skip-verify: accepts a self-signed certificate, which is refused without it', async () => {
    const { cert, key } = createCa(lab.configFolder, 'own').issue('receiver')
    const own = { port: 0, hostname: '127.0.0.1', fetch: receive }
    using secure = Bun.serve({ ...own, tls: { cert: Bun.file(cert), key: Bun.file(key) } })
    await accept(1)
    const listen = (...args: readonly string[]) =>
      lab.run(
        'listen',
        '--forward-to',
        `https://127.0.0.1:${secure.port}/`,
        '--from',
        '1h',
        '--max',
        '1',
        ...args,
      )
    expect((await listen()).out).toMatch(/  [A-Z_]*(CERT|SIGNATURE)[A-Z_]*  \d+ ms\n$/)
    expect((await listen('--skip-verify')).out).toMatch(/  204  \d+ ms\n$/)
  }, 20_000)

  test('latchkey listen: in a terminal a key press sends failed events again, and Ctrl-C ends it', async () => {
    status = 500
    let shown = ''
    const name = named()
    const child = Bun.spawn([compiledProgram(), 'listen', '--forward-to', url(), '--name', name], {
      env: lab.env(),
      terminal: { data: (_terminal, bytes) => void (shown += new TextDecoder().decode(bytes)) },
    })
    await streams(name)
    const [failed] = await accept(1)
    const shows = (status: string) =>
      until(`the shown ${status}`, () => Bun.stripANSI(shown).includes(`  ${status}  `))
    await shows('500')
    status = 204
    child.terminal?.write('r')
    await shows('204')
    expect(idsOf(calls)).toEqual([failed, failed])
    expect(shown).not.toMatch(/[^\r]\n/)
    child.terminal?.write('\u0003')
    await child.exited
    expect(child.signalCode).toBe('SIGINT')
  }, 20_000)

  test.each([
    [['listen'], 2, "required option '--forward-to <url>' not specified"],
    [['listen', '--forward-to', 'ftp://localhost:3000'], 2, 'It must be an http or https URL'],
    [['listen', '--forward-to', 'http://127.0.0.1:1/', '--events', 'Payment'], 1, 'types'],
  ])('latchkey %j: ends with exit code %d, and the error names the cause', async (args, code, text) => {
    const found = await lab.run(...args)
    expect([found.code, found.err]).toEqual([code, expect.stringContaining(text)])
  })

  test('latchkey listen: a key that cannot read payloads is refused', async () => {
    const args = ['listen', '--forward-to', url(), '--name', named()]
    const found = await latchkey(args, lab.env('rival'))
    expect([found.code, found.err]).toEqual([4, expect.stringContaining('events and payloads:read')])
    expect(found.out).toBe('')
    const json = await latchkey([...args, '--json'], lab.env('rival'))
    expect(JSON.parse(json.out)).toMatchObject({ code: 'api_key_scope' })
  })
})

test('latchkey events tail: prints events as they arrive, as lines or as JSON', async () => {
  const name = named()
  const tail = lab.run('events', 'tail', '--name', name, '--events', 'ta.il', '--max', '1', '--json')
  await streams(name)
  const [id] = await accept(1, { type: 'ta.il' })
  const { code, out } = await tail
  expect(code).toBe(0)
  expect(JSON.parse(out)).toMatchObject({ id, type: 'ta.il', payload: { id: 'p-1' } })
  expect(out).toMatch(/^[^\n]+"amount":820982911946154508[^\n]+\n$/)
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

test('latchkey subscriptions: lists and deletes the subscriptions of listeners', async () => {
  await accept(1)
  const name = named()
  await lab.run('events', 'tail', '--name', name, '--max', '1', '--from', '1h', '--events', 'order.*')
  expect((await lab.run('subscriptions', 'list')).out).toMatch(new RegExp(`^${name} +order\\.\\*  `, 'm'))
  expect((await lab.run('subscriptions', 'delete', name)).out).toBe(`The subscription ${name} is deleted\n`)
  expect(await lab.run('subscriptions', 'delete', name)).toMatchObject({
    code: 3,
    err: `There is no subscription ${name}\n`,
  })
  expect((await lab.run('subscriptions', 'delete', 'A_b')).code).toBe(3)
  expect((await lab.run('subscriptions', 'list')).out).toBe('No subscriptions\n')
})
