import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EventId } from '#internal/base/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { failEvent } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { callbackSecret, startReceiver } from '#test/support/events/callback-receiver.ts'
import { addAttempt, someExchange } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { until } from '#test/support/until.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())

const unknownId = 'evt_06gw979vs1d9q6mddfvvx375s4' as EventId
const bigNumber = '820982911946154508'
const acme = () => lab.seeded.acme

/** Stores events of acme. */
function accept(count: number, fields: Parameters<typeof receivedEvent>[0] = {}) {
  const events = Array.from({ length: count }, () => receivedEvent({ tenantId: acme().tenantId, ...fields }))
  return acceptEvents(lab.backoffice.pool, events)
}

type Listed = readonly { readonly id: string; readonly tenantId: string }[]
const idsOf = (listed: Listed) => listed.map(({ id }) => id)

describe('latchkey events list', () => {
  test('latchkey events list: shows the tenant’s events as a table, and as one JSON array', async () => {
    const { code, out, err } = await lab.run('events', 'list')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(
      /^RECEIVED AT +ID +PROVIDER +TYPE +STATE +ORIGIN +ATTEMPTS +LAST STATUS +NEXT ATTEMPT\n/,
    )
    expect(out).toMatch(
      new RegExp(
        `^20\\S+Z +${acme().failedId} +generic +order.created +delivery_failed +provider +0 +- +-$`,
        'm',
      ),
    )
    const listed = await lab.json<Listed>('events', 'list')
    expect(idsOf(listed)).toContain(acme().eventId)
    expect(new Set(listed.map(({ tenantId }) => tenantId))).toEqual(new Set([acme().tenantId]))
  })

  test.each([
    ['--state', () => ['--state', 'delivery_failed'], () => acme().failedId],
    ['--id', () => ['--id', acme().eventId], () => acme().eventId],
    ['--source-event-id', () => ['--source-event-id', acme().sourceEventId], () => acme().eventId],
    [
      'all filters',
      () => [
        '--provider',
        'generic',
        '--type',
        'order.created',
        '--origin',
        'provider',
        '--from',
        '1h',
        '--to',
        '0m',
        '--state',
        'delivery_failed',
      ],
      () => acme().failedId,
    ],
  ])('latchkey events list %s: shows only the events of the filter', async (_name, args, id) => {
    expect(idsOf(await lab.json<Listed>('events', 'list', ...args()))).toEqual([id()])
  })

  test('latchkey events list: without a match, prints a message, or an empty array with --json', async () => {
    const none = ['events', 'list', '--type', 'no.such']
    expect(await lab.run(...none)).toEqual({ code: 0, out: 'No events\n', err: '' })
    expect(await lab.json<Listed>(...none)).toEqual([])
  })

  test('latchkey events list, search: find an event type family regardless of letter case, and suggest the family for a single word', async () => {
    await accept(2, { type: 'parcel.sent', payload: '{"parcel":"needle-9"}' })
    const [failed = unknownId] = await accept(1, { type: 'parcel.lost', payload: '{"parcel":"needle-9"}' })
    await failEvent(lab.backoffice, failed)
    expect(await lab.json<Listed>('events', 'list', '--type', 'Parcel.*')).toHaveLength(3)
    const hint = `No event has the complete type parcel; for all types that begin with it: --type 'parcel.*'`
    expect((await lab.run('events', 'list', '--type', 'Parcel')).out).toBe(`No events\n${hint}\n`)
    const search = ['events', 'search', '--from', '1h', '--text', 'needle-9']
    const found = async (...more: string[]) =>
      idsOf((await lab.json<{ readonly items: Listed }>(...search, ...more)).items)
    expect(await found()).toHaveLength(3)
    expect(await found('--state', 'delivery_failed')).toEqual([failed])
    expect(await found('--type', 'PARCEL.*', '--limit', '1')).toHaveLength(1)
    expect((await lab.run(...search, '--type', 'parcel')).out).toContain(hint)
    expect((await lab.run(...search, '--type', 'parcel*')).code).toBe(2)
    expect((await lab.run(...search, '--limit', '101')).code).toBe(2)
  })

  test('latchkey events list --limit: reads as many pages as needed, and prints the cursor for the remaining events', async () => {
    await accept(130, { type: 'page.tested' })
    const args = ['events', 'list', '--type', 'page.tested', '--json', '--limit']
    const first = await lab.run(...args, '120')
    const [, cursor = ''] = /^More: repeat the command with --after (\S+)\n$/.exec(first.err) ?? []
    const listed = idsOf(JSON.parse(first.out))
    expect(listed).toHaveLength(120)
    const rest = await lab.run(...args, '120', '--after', cursor)
    expect(rest.err).toBe('')
    expect(new Set([...listed, ...idsOf(JSON.parse(rest.out))]).size).toBe(130)
  })

  test.each(['slack', 'latchkey'])(
    'latchkey events list, replay: can filter by the provider %s, which is not built in',
    async (name) => {
      const provider = parseProviderName(name)
      const [id = unknownId] = await accept(1, { ...(provider && { provider }) })
      await failEvent(lab.backoffice, id)
      const filter = ['--provider', name]
      expect(idsOf(await lab.json<Listed>('events', 'list', ...filter))).toEqual([id])
      const preview = await lab.json('events', 'replay', '--from', '1h', '--dry-run', ...filter)
      expect(preview).toMatchObject({ total: { count: 1 } })
    },
  )

  test('latchkey events list: removes control characters of a provider’s texts from the table', async () => {
    await accept(1, { type: 'control\u001b[2J.tested' })
    const { out } = await lab.run('events', 'list', '--provider', 'generic', '--limit', '1')
    expect(out).toContain('control\ufffd[2J.tested')
    expect(out).not.toContain('\u001b')
  })

  test.each([
    [['events', 'list', '--state', 'failed'], 'Allowed choices are accepted, processed'],
    [['events', 'list', '--limit', '1001'], 'It must be a whole number from 1 to 1000'],
    [['events', 'list', '--from', 'today'], 'It must be a time'],
    [['events', 'lst'], 'Did you mean list?'],
    [['event', 'list'], 'Did you mean events?'],
    [['events', 'get', 'x'], 'It must be evt_ and 26 characters'],
  ])('latchkey %j: is refused with "%s"', async (args, text) => {
    const { code, out, err } = await lab.run(...args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(text)
  })
})

describe('latchkey events get', () => {
  test('latchkey events get: shows the event and its attempts', async () => {
    const [id = unknownId] = await accept(1)
    const { pool } = lab.backoffice
    await addAttempt(pool, id, { status: 502, durationMs: 17, answer: 'an earlier body' })
    const answer = `{"error":"out of \u001bstock"}\n${'line\n'.repeat(20)}`
    await addAttempt(pool, id, { attempt: 2, durationMs: 530, exchange: someExchange, answer })
    const { code, out } = await lab.run('events', 'get', id)
    expect(code).toBe(0)
    expect(out).toContain(
      `\n\nResponse to attempt 2, cut; --json has more:\n{"error":"out of \ufffdstock"}\n${'line\n'.repeat(9)}`,
    )
    expect(out).not.toContain('an earlier body')
    expect(out).toMatch(/^state +accepted$/m)
    expect(out).toMatch(/^1 +1 +20\S+Z +17 +refused +502 +- +-$/m)
    expect(out).toMatch(/^1 +2 .* dns 4, connect 12, tls 22, first byte 480$/m)
    expect(await lab.json('events', 'get', id)).toMatchObject({
      event: { id },
      attempts: [{ status: 502 }, {}],
    })
  })

  test.each([['get'], ['payload'], ['explain'], ['retry'], ['replay']])(
    'latchkey events %s: with the id of another tenant’s event ends with code 3',
    async (command) => {
      for (const id of [unknownId, lab.seeded.rival.failedId]) {
        const { code, out, err } = await lab.run('events', command, id)
        expect({ code, out }).toEqual({ code: 3, out: '' })
        expect(err).toContain('(not_found, request ')
        const json = await lab.run('events', command, id, '--json')
        expect([json.code, JSON.parse(json.out)]).toEqual([
          3,
          expect.objectContaining({ code: 'not_found', status: 404 }),
        ])
      }
    },
  )

  test('latchkey events get --curl: prints a command that delivers the event signed and in the documented format', async () => {
    const receiver = startReceiver()
    const secretFile = join(lab.configFolder, 'secret')
    writeFileSync(secretFile, `${callbackSecret}\n`)
    const [id = unknownId] = await accept(1, { payload: `{"text":"it's $HOME \`x\`","number":${bigNumber}}` })
    const args = ['events', 'get', id, '--curl', '--to', receiver.url]
    const { code, out } = await lab.run(...args, '--secret-file', secretFile)
    expect(code).toBe(0)
    expect(out).not.toContain(callbackSecret)
    expect(await Bun.$`sh -c ${out}`.nothrow().text()).toContain(' 204 ')
    const fromEnv = await latchkey(args, { ...lab.env(), LATCHKEY_SIGNING_SECRET: callbackSecret })
    await Bun.$`sh -c ${fromEnv.out}`.quiet()
    const calls = await receiver.received(2)
    expect(calls.map((call) => [call.id, call.verified])).toEqual([
      [id, true],
      [id, true],
    ])
    expect(calls[0]?.body).toContain(`"payload":{"text":"it's $HOME \`x\`","number":${bigNumber}}`)
    await receiver.stop()
  })

  test.each([
    ['with a missing file', ['--secret-file', '/none'], {}, '/none cannot be read: ENOENT'],
    [
      'with another text',
      [],
      { LATCHKEY_SIGNING_SECRET: 'hunter2' },
      'LATCHKEY_SIGNING_SECRET is no signing secret',
    ],
  ])(
    'latchkey events get --curl: a signing secret %s is refused, and the error does not show the secret',
    async (_case, args, more, text) => {
      const { code, out, err } = await latchkey(['events', 'get', acme().eventId, '--curl', ...args], {
        ...lab.env(),
        ...more,
      })
      expect({ code, out }).toEqual({ code: 2, out: '' })
      expect(err).toContain(text)
      expect(err).not.toContain('hunter2')
    },
  )
})

describe('latchkey events payload, explain and retry', () => {
  test('latchkey events payload: prints the payload as received, also as JSON', async () => {
    for (const args of [[], ['--json']]) {
      const { code, out } = await lab.run('events', 'payload', acme().eventId, ...args)
      expect(code).toBe(0)
      expect(out).toMatch(new RegExp(`^\\{"id":"${acme().sourceEventId}".*"amount":${bigNumber}\\}\\n$`))
    }
  })

  test('latchkey events payload: without the scope payloads:read ends with code 4 and names the scopes', async () => {
    const { code, out, err } = await latchkey(
      ['events', 'payload', lab.seeded.rival.eventId],
      lab.env('rival'),
    )
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(err).toContain(
      'This call needs an API key with the scopes payloads:read and one of events and events:read: add them to spec.apiKeys[].scopes of the Tenant, or use a key that has them (api_key_scope, request ',
    )
  })

  test('latchkey events explain: prints an explanation and the recommended action', async () => {
    const { code, out } = await lab.run('events', 'explain', acme().failedId)
    expect(code).toBe(0)
    expect(out).toMatch(/^The delivery has failed\.\n/)
    expect(out).toMatch(/^to do +Find the cause, then replay the event\.$/m)
    expect(await lab.json('events', 'explain', acme().failedId)).toMatchObject({ position: 'failed' })
  })

  test('latchkey events explain, retry: for a waiting event, explain names the next retry, and retry uses one attempt of the schedule', async () => {
    const [id = unknownId] = await accept(1)
    const { pool } = lab.backoffice
    await addAttempt(pool, id, { status: 502 })
    await pool.query(
      `UPDATE deliveries_due SET due_at = now() + interval '1 hour', is_retry = true, attempts = 1 WHERE event_id = $1`,
      [id],
    )
    const explained = await lab.run('events', 'explain', id)
    expect(explained.out).toMatch(new RegExp(`^retry +latchkey events retry ${id}$`, 'm'))
    const { code, out } = await lab.run('events', 'retry', id)
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^The next attempt of the schedule is made now; .*cycle 1\)\n$/),
    ])
  })

  test('latchkey events retry: begins a delivery cycle, and a repeated command reports that the delivery is already due', async () => {
    const [id = unknownId] = await accept(1)
    await failEvent(lab.backoffice, id)
    const first = await lab.run('events', 'retry', id)
    expect([first.code, first.out]).toEqual([0, 'Another delivery cycle begins now (delivery cycle 2)\n'])
    expect(await lab.json('events', 'retry', id)).toMatchObject({ change: 'none', cycle: 2, isNew: false })
  })
})

describe('latchkey events replay', () => {
  const replays = async () =>
    Number((await lab.backoffice.pool.query('SELECT count(*) FROM replays')).rows[0].count)
  const failed = ['events', 'replay', '--from', '1h', '--type']

  // Removes the replays of earlier tests: the number of running replays per tenant is limited, and no process here completes them.
  beforeEach(async () => void (await lab.backoffice.pool.query('TRUNCATE replays')))

  /** Stores failed events of a type. */
  async function fail(count: number, type: string) {
    for (const id of await accept(count, { type })) await failEvent(lab.backoffice, id)
  }

  test('latchkey events replay: delivers one event again, and a repeated command changes nothing', async () => {
    const [id = unknownId] = await accept(1)
    await failEvent(lab.backoffice, id)
    expect(await lab.run('events', 'replay', id)).toEqual({
      code: 0,
      out: 'Delivery cycle 2 begins now\n',
      err: '',
    })
    expect(await lab.json('events', 'replay', id)).toMatchObject({ cycle: 2, isNew: false })
  })

  test('latchkey events replay --dry-run: counts the events of the filter and starts nothing', async () => {
    await fail(3, 'dry.tested')
    const before = await replays()
    const { code, out } = await lab.run(...failed, 'dry.tested', '--dry-run')
    expect(code).toBe(0)
    expect(out).toStartWith('3 events match\nRECEIVED AT')
    expect(out).toEndWith('Nothing was started\n')
    expect(await lab.json(...failed, 'dry.tested', '--state', 'processed', '--dry-run')).toMatchObject({
      total: { count: 0 },
    })
    expect(await replays()).toBe(before)
  })

  test('latchkey events replay: asks for confirmation after the preview, and starts only one job per key', async () => {
    await fail(2, 'asked.tested')
    const before = await replays()
    const from = ['--from', '2026-01-01']
    const args = ['events', 'replay', ...from, '--type', 'asked.tested', '--rate', '7', '--key', 'incident 7']
    const answer = (text: string | undefined) =>
      latchkey(args, lab.env(), { ask: ({ isSecret }) => Promise.resolve(isSecret ? 'y' : text) })
    for (const text of ['', 'n', 'yesterday', undefined])
      expect(await answer(text)).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringContaining('2 events match'),
      })
    expect(await replays()).toBe(before)
    const { code, out, err } = await answer('y')
    expect(code).toBe(0)
    expect(err).toContain('asked.tested')
    expect(out).toMatch(/^rate +7 a second$/m)
    expect(await lab.json(...args, '--yes')).toMatchObject({ id: /rpl_\w+/.exec(out)?.[0] })
    expect(await replays()).toBe(before + 1)
  })

  test('latchkey events replay: without a terminal and without --yes starts nothing', async () => {
    await fail(1, 'unasked.tested')
    const { code, err } = await lab.run(...failed, 'unasked.tested')
    expect(code).toBe(2)
    expect(err).toContain('Nothing was done: confirm with --yes')
  })

  test('latchkey events replay --wait: waits for the end of the job, and fails if it is cancelled', async () => {
    await fail(1, 'awaited.tested')
    const running = lab.run(...failed, 'awaited.tested', '--yes', '--wait', '--json')
    const id = await until(async () => {
      const { json } = await lab.backoffice.call('GET', `/internal/v1/replays?tenantId=${acme().tenantId}`)
      const items = json['items'] as { id: string; filter: { type?: string } }[]
      return items.find(({ filter }) => filter.type === 'awaited.tested')?.id
    })
    await lab.backoffice.call('POST', `/internal/v1/replays/${id}/cancel`)
    const { code, out } = await running
    expect([code, JSON.parse(out)]).toEqual([1, expect.objectContaining({ id, state: 'cancelled' })])
  })

  test.each([
    [['events', 'replay'], 'give the id of an event, --from TIME'],
    [['events', 'replay', unknownId, '--from', '1h'], 'give either the id of an event, or filters'],
    [
      ['events', 'replay', '--from', '1h', '--state', 'accepted'],
      'Allowed choices are processed, delivery_failed, verified, any',
    ],
  ])('latchkey %j: is refused with "%s"', async (args, text) => {
    const { code, err } = await lab.run(...args)
    expect(code).toBe(2)
    expect(err).toContain(text)
  })
})
