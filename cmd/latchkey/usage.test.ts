import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())

test('latchkey usage: shows limits with their usage', async () => {
  const { code, out } = await lab.run('usage', '--from', '48h', '--to', '1h')
  expect(code).toBe(0)
  expect(out).toMatch(/^LIMIT +USED +SOFT +HARD +STATE +RESETS AT\n/)
  expect(out).toMatch(/^locksPerMinute +\d+ +\S+ +\d+ +ok/m)
  expect(await lab.json('usage')).toMatchObject({ over: 'accept', hours: expect.any(Array) })
})

test('latchkey refused: lists the refused calls that match the filter, and the JSON output contains headers and body sample', async () => {
  const { code, out } = await lab.run('refused')
  expect(code).toBe(0)
  expect(out).toMatch(
    new RegExp(`^20\\S+Z +card +signature_mismatch +203\\.0\\.113\\.7 +${lab.seeded.acme.refusedId}$`, 'm'),
  )
  const filter = ['--provider', 'stripe', '--cause', 'signature_mismatch']
  expect(await lab.json('refused', ...filter)).toMatchObject([
    { id: lab.seeded.acme.refusedId, sample: '{}' },
  ])
  expect((await lab.run('refused', '--cause', 'loop_detected')).out).toBe('No refused calls\n')
})

/** Runs `latchkey usage` against a server that answers like this. */
async function runAgainst(answer: () => Response | Promise<Response>) {
  using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
  const url = `http://127.0.0.1:${server.port}`
  const env = { LATCHKEY_URL: url, LATCHKEY_API_KEY: dashboardKey('acme') }
  return { ...(await latchkey(['usage'], env)), url }
}

test.each([
  ['no JSON', () => new Response('<html>'), 1, 'The response of GET /v1/usage does not match the API'],
  [
    'another object',
    () => Response.json({ limits: [], over: 1, hours: [] }),
    1,
    'does not match the API: /over must be string',
  ],
  [
    'a redirect',
    () => Response.redirect('http://elsewhere.test/'),
    1,
    'redirects to http://elsewhere.test/: use that address',
  ],
  [
    'a 404 of another program',
    () => new Response('not here', { status: 404 }),
    1,
    'answered 404, but not like Latchkey: check the address',
  ],
  ['a 502 of a proxy', () => new Response('', { status: 502 }), 5, 'answered 502'],
  [
    'an error with control characters',
    () => Response.json({ message: '\u001b[2J', code: 'x', requestId: 'y' }, { status: 500 }),
    1,
    '\ufffd[2J (x, request y)',
  ],
  ['an answer without an end', () => new Response(endless()), 1, 'exceeds 33554432 bytes'],
] as const)(
  'API client: %s ends the command with an error that says what to do',
  async (_case, answer, exitCode, text) => {
    const { code, out, err } = await runAgainst(answer)
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(text)
    expect(err).not.toContain(dashboardKey('acme'))
  },
)

function endless(): ReadableStream<Uint8Array> {
  const chunk = new Uint8Array(1024 * 1024)
  return new ReadableStream({ pull: (controller) => controller.enqueue(chunk) })
}

test('API client: unknown fields and new enum values in responses are accepted', async () => {
  const limit = { limit: 'new', used: 1, soft: null, hard: null, state: null, more: {} }
  const { code, out } = await runAgainst(() =>
    Response.json({ limits: [limit], over: 'delay', hours: [], more: 1 }),
  )
  expect(code).toBe(0)
  expect(out).toContain('new')
})
