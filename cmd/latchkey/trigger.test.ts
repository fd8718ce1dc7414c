import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())

interface Simulated {
  readonly simulationId: string
  readonly event: { readonly id: string; readonly type: string }
}

/** Triggers an event of the own service, whose payload is what the options set, and returns its payload. */
async function dataOf(...set: readonly string[]): Promise<string> {
  const options = set.flatMap((each) => ['--set', each])
  const { event } = await lab.json<Simulated>('trigger', 'generic', 'invoice.approved', ...options)
  const { out } = await lab.run('events', 'payload', event.id)
  return /"data":(\{.*\})\}\n$/.exec(out)?.[1] ?? out
}

test('latchkey trigger: stores an event of a provider by the name of its vendor', async () => {
  const { code, out } = await lab.run('trigger', 'shopify', 'order.paid', '--set', 'total_price="42.00"')
  expect(code).toBe(0)
  expect(out).toMatch(/^type +order\.paid \(orders\/paid\)$/m)
  const [id = ''] = /evt_\w+/.exec(out) ?? []
  expect((await lab.run('events', 'payload', id)).out).toContain('"total_price":"42.00"')
})

test.each([
  ['nested members', ['a.b.c=1', 'a.b.d=true', 'a.e=null'], '{"a":{"b":{"c":1,"d":true},"e":null}}'],
  ['a text', ['a=hello=world', 'b=', 'c="7"'], '{"a":"hello=world","b":"","c":"7"}'],
  ['an array and an object', ['a=[{"b":1}]', 'c={"d":2}'], '{"a":[{"b":1}],"c":{"d":2}}'],
  ['a dot in a name', ['a\\.b=1'], '{"a.b":1}'],
  [
    'names of properties that every object has',
    ['toString=1', 'constructor.name=2'],
    '{"toString":1,"constructor":{"name":2}}',
  ],
])('latchkey trigger --set: sets %s', async (_case, set, json) => {
  expect(await dataOf(...set)).toBe(json)
})

test.each([
  [['trigger', 'generic', 'a.b', '--set', 'x'], 'It must be path=value'],
  [['trigger', 'generic', 'a.b', '--set', 'x..y=1'], 'It must be path=value'],
  [['trigger', 'generic', 'a.b', '--set', 'x=1', '--set', 'x=2'], 'which gives x a value'],
  [['trigger', 'generic', 'a.b', '--set', 'x=1', '--set', 'x.y=2'], 'which gives x a value'],
  [['trigger', 'generic', 'a.b', '--set', 'x.y=1', '--set', 'x=2'], 'which gives x a value'],
  [['trigger', 'generic', 'a.b', '--set', `${'x.'.repeat(40)}y=1`], 'more than 32 names'],
  [['trigger', 'Strip', 'a.b'], 'It must be the name of a provider, such as card, stripe or slack.'],
  [['trigger', 'card'], "missing required argument 'type'"],
])('latchkey %j: is refused with "%s"', async (args, text) => {
  const { code, out, err } = await lab.run(...args)
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain(text)
})

test.each([
  [
    'a type that the provider has not',
    ['card', 'no.such'],
    'acme',
    1,
    'card has no type "no.such": GET /v1/event-types?provider=card and the reference page of events list its types',
  ],
  [
    'a misspelt type of a vendor',
    ['stripe', 'payment.suceeded'],
    'acme',
    1,
    'stripe (card) has no type "payment.suceeded": did you mean payment.succeeded?',
  ],
  [
    'a raw type of a vendor',
    ['stripe', 'payment_intent.succeeded'],
    'acme',
    1,
    '"payment_intent.succeeded" is a raw type of stripe (card): its normalized type is payment.succeeded',
  ],
  [
    'an unknown type of a provider that is not set up',
    ['github', 'push'],
    'acme',
    1,
    'This tenant does not take calls of "codehost"',
  ],
  ['a provider that is not set up', ['codehost', 'code.pushed'], 'acme', 1, '(provider_not_ready, request '],
  [
    'a key without the scope simulations',
    ['card', 'charge.succeeded'],
    'reader',
    4,
    '(api_key_scope, request ',
  ],
] as const)(
  'latchkey trigger: with %s, the error says what to do',
  async (_case, args, tenant, exitCode, text) => {
    const { code, out, err } = await latchkey(['trigger', ...args], lab.env(tenant))
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(text)
  },
)

test('latchkey trigger: for an unknown provider, suggests the provider with the closest name', async () => {
  expect(await lab.run('trigger', 'strip', 'a.b')).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('There is no provider "strip": did you mean stripe?'),
  })
})
