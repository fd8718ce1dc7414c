import { describe, expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type JsonObject } from '#internal/base/index.ts'
import { eventTables } from './built-in/tables.ts'
import { type Condition, catalogueOf, eventAreas, eventTypes, eventTypeTexts } from './catalogue.ts'
import { memberAt } from './declared/call.ts'
import { isDottedType } from './declared/event.ts'
import { DeclarationSchema } from './declared/schema.ts'

const tables = Object.values(eventTables)
const table = eventTypes(
  'card',
  [
    { raw: 'plain', type: 'noun.plain' },
    { raw: 'state', type: 'noun.won', when: [{ path: 'data.status', values: ['won', 'closed_won'] }] },
    {
      raw: 'state',
      type: 'noun.paid',
      when: [is('data.paid', true), { path: 'data.invoice', isPresent: false }],
    },
    {
      raw: 'state',
      type: 'noun.invoiced',
      when: [{ path: 'data.invoice', isPresent: true }],
      since: '0.2.0',
    },
    { raw: 'pull', type: 'pull.opened', when: [is('action', 'opened')] },
    {
      raw: 'pull',
      type: 'pull.merged',
      when: [is('action', 'closed'), is('merged', true)],
      without: ['data.id'],
    },
    { raw: 'pull', type: 'pull.closed', when: [is('action', 'closed')], example: { 'data.by': 'a' } },
  ],
  [
    { raw: 'state', payload: { data: { id: 1 } } },
    { raw: 'pull', like: 'state', with: { 'data.id': 2, number: 3 } },
    { raw: 'pull', type: 'pull.closed', like: 'pull', with: { number: 4 } },
  ],
)

function is(path: string, value: string | boolean): Condition {
  return { path, values: [value] }
}

test.each([
  ['pull.opened', { data: { id: 2 }, number: 3, action: 'opened' }],
  ['pull.merged', { data: {}, number: 3, action: 'closed', merged: true }],
  ['pull.closed', { data: { id: 2, by: 'a' }, number: 4, action: 'closed' }],
  ['noun.plain', {}],
])(
  'eventTypes: the sample of %s contains the members that its catalogue row requires, and those of the sample that `like` names',
  (type, sample) => {
    const one = table.cases.find((each) => each.type === type)
    expect(one && JSON.stringify(table.sampleOf(one))).toBe(JSON.stringify(sample))
  },
)

test.each([
  ['a raw type with one type', 'plain', {}, 'noun.plain'],
  ['a listed value', 'state', { data: { status: 'closed_won' } }, 'noun.won'],
  ['all conditions of a case', 'state', { data: { paid: true, invoice: null } }, 'noun.paid'],
  ['a present member', 'state', { data: { paid: true, invoice: 'in_1' } }, 'noun.invoiced'],
  ['an action', 'pull', { action: 'opened' }, 'pull.opened'],
  ['an action with a condition', 'pull', { action: 'closed', merged: true }, 'pull.merged'],
  ['an action whose condition does not hold', 'pull', { action: 'closed', merged: false }, 'pull.closed'],
  ['an unknown action', 'pull', { action: 'renamed' }, undefined],
  ['no case that applies', 'state', { data: 'text' }, undefined],
  ['a value of another kind', 'state', { data: { paid: 'true' } }, undefined],
  ['an inherited member', 'state', JSON.parse('{"__proto__":{"data":{"status":"won"}}}'), undefined],
  ['an unlisted raw type', 'constructor', {}, undefined],
])(
  'eventTypes: for %s, `typeOf` returns the type of the first case that applies, or undefined',
  (_what, rawType, body, type) => {
    expect(table.typeOf(rawType, body)).toBe(type)
  },
)

test('catalogueOf: lists each type once with its raw types, conditions, first version and an example', () => {
  const entries = catalogueOf([table])
  expect(entries.map(({ type }) => type)).toEqual([
    'noun.invoiced',
    'noun.paid',
    'noun.plain',
    'noun.won',
    'pull.closed',
    'pull.merged',
    'pull.opened',
  ])
  expect(entries[0]).toMatchObject({ since: '0.2.0', providers: [{ provider: 'card', since: '0.2.0' }] })
  expect(entries[1]?.providers[0]?.sources).toEqual([
    {
      providerRawType: 'state',
      conditions: [
        { path: 'data.paid', values: [true] },
        { path: 'data.invoice', isPresent: false },
      ],
      unless: ['noun.won'],
      since: '0.1.0',
    },
  ])
  const unlessOf = (type: string) =>
    entries.find((entry) => entry.type === type)?.providers[0]?.sources[0]?.unless
  expect(unlessOf('pull.opened')).toEqual([])
  expect(unlessOf('pull.closed')).toEqual(['pull.merged'])
  // `unless` omits noun.paid, because its condition contradicts the condition of noun.invoiced.
  expect(unlessOf('noun.invoiced')).toEqual(['noun.won'])
  expect(entries[1]?.providers[0]).toMatchObject({
    providerRawType: 'state',
    example: { data: { id: 1, paid: true, invoice: null } },
  })
})

test.each<[what: string, first: Condition, second: Condition, unless: readonly string[]]>([
  ['of another member', { path: 'a', values: [1] }, { path: 'b', values: [1] }, ['noun.first']],
  ['with a common value', { path: 'a', values: [1, 2] }, { path: 'a', values: [2] }, ['noun.first']],
  ['without a common value', { path: 'a', values: [1, 2] }, { path: 'a', values: [3] }, []],
  ['on a present member', { path: 'a', isPresent: true }, { path: 'a', values: [3] }, ['noun.first']],
  ['on an absent member', { path: 'a', values: [3] }, { path: 'a', isPresent: false }, []],
  ['on a member of an absent one', { path: 'a', isPresent: false }, { path: 'a.b', values: [3] }, []],
  [
    'on a name that begins alike',
    { path: 'a', isPresent: false },
    { path: 'ab', values: [3] },
    ['noun.first'],
  ],
])(
  'catalogueOf: a source after a source with a condition %s names the type of the earlier one only if both can apply',
  (_what, first, second, unless) => {
    const rows = [
      { raw: 'raw', type: 'noun.first', when: [first] },
      { raw: 'raw', type: 'noun.second', when: [second] },
    ]
    const [, entry] = catalogueOf([eventTypes('card', rows, [])])
    expect(entry?.providers[0]?.sources[0]?.unless).toEqual(unless)
  },
)

describe.each(tables.map((each) => [each.provider, each] as const))('%s', (provider, each) => {
  test(`catalogue of ${provider}: the example of every case has the type of the case`, () => {
    const wrong = each.cases.filter((one) => each.typeOf(one.rawType, each.sampleOf(one)) !== one.type)
    expect(wrong).toEqual([])
  })

  test(`catalogue of ${provider}: a source whose conditions are also true for the example of another type names this type`, () => {
    const sources = catalogueOf([each]).flatMap(({ type, providers }) =>
      providers.flatMap((one) => one.sources.map((source) => ({ ...source, type }))),
    )
    const unnamed = each.cases.flatMap((one) => {
      const payload = each.sampleOf(one)
      return sources
        .filter(({ providerRawType }) => providerRawType === one.rawType)
        .filter(({ conditions }) => conditions.every((condition) => holds(condition, payload)))
        .filter(({ type, unless }) => type !== one.type && !unless.includes(one.type))
    })
    expect(unnamed).toEqual([])
  })

  test(`catalogue of ${provider}: an example has the vendor's shape and at most 8 KiB`, () => {
    for (const one of each.cases) {
      const text = JSON.stringify(each.sampleOf(one))
      // The bound is low, because the payload of a deletion can consist of an id alone.
      expect(text.length).toBeGreaterThan('{"id":1234567}'.length)
      expect(text.length).toBeLessThan(8_192)
    }
  })
})

function holds(condition: Condition, payload: JsonObject): boolean {
  const value = memberAt(payload, ...condition.path.split('.')) ?? null
  if (!('values' in condition)) return (value !== null) === condition.isPresent
  return condition.values.some((each) => each === value)
}

test('catalogue: every noun of event types belongs to one area', () => {
  const nouns = eventAreas.flatMap((area) => area.nouns)
  expect(nouns.length).toBe(new Set(nouns).size)
})

test('catalogue: every type is dotted lowercase and has a meaning, and every meaning has a type', () => {
  const types = new Set(tables.flatMap(({ cases }) => cases.map(({ type }) => type)))
  expect([...types].filter((type) => !isDottedType(type))).toEqual([])
  expect([...types].filter((type) => !eventTypeTexts.has(type))).toEqual([])
  expect([...eventTypeTexts.keys()].filter((type) => !types.has(type))).toEqual([])
})

// Detects a provider that uses another type for the same fact: it is then missing in the list of this type.
test.each([
  ['payment.authorized', ['card', 'storefront', 'wallet']],
  ['payment.succeeded', ['card', 'storefront', 'wallet', 'gateway']],
  ['payment.failed', ['card', 'storefront', 'wallet', 'gateway']],
  ['payment.cancelled', ['card', 'storefront', 'wallet', 'gateway']],
  ['payment.reversed', ['wallet', 'gateway']],
  ['refund.created', ['card', 'storefront', 'wallet']],
  ['refund.succeeded', ['card', 'storefront', 'wallet', 'gateway']],
  ['refund.failed', ['card', 'storefront', 'wallet', 'gateway']],
  ['chargeback.created', ['card', 'storefront', 'wallet', 'gateway']],
  ['chargeback.won', ['card', 'storefront', 'wallet', 'gateway']],
  ['chargeback.lost', ['card', 'storefront', 'wallet', 'gateway']],
  ['order.paid', ['storefront', 'wallet']],
  ['payout.paid', ['card', 'wallet', 'gateway']],
  ['payout.failed', ['card', 'wallet', 'gateway']],
  ['subscription.payment_succeeded', ['card', 'storefront']],
  ['subscription.payment_failed', ['card', 'storefront', 'wallet', 'gateway']],
  ['subscription.cancelled', ['card', 'storefront', 'wallet', 'gateway']],
  ['payment_method.attached', ['card', 'storefront', 'wallet']],
  ['product.created', ['card', 'storefront', 'wallet']],
  ['app.authorized', ['card', 'wallet', 'gateway']],
  ['app.deauthorized', ['card', 'codehost', 'wallet', 'gateway']],
  ['app.uninstalled', ['storefront', 'codehost']],
  ['app.permissions_changed', ['storefront', 'codehost']],
] as const)('catalogue: %s is a type of exactly the providers %j', (type, names) => {
  const entry = catalogueOf(tables).find((each) => each.type === type)
  expect(entry?.providers.map(({ provider }) => provider)).toEqual([...names])
})

test.each([
  ['card', 'subscription.payment_succeeded', 'data.object.parent.subscription_details.subscription'],
  ['storefront', 'subscription.payment_succeeded', 'subscription_contract_id'],
  ['wallet', 'payment.succeeded', 'resource.billing_agreement_id'],
  ['gateway', 'payment.succeeded', 'notification.subject.subscription.id'],
])(
  'catalogue: with provider %s, an example of %s contains the subscription at the path %s',
  (provider, type, path) => {
    const each = tables.find((one) => one.provider === provider)
    const examples = each?.cases.filter((one) => one.type === type).map((one) => each.sampleOf(one)) ?? []
    expect(examples.filter((example) => memberAt(example, ...path.split('.')) !== undefined)).not.toEqual([])
  },
)

test('catalogue: event types use one spelling, such as `cancelled` and never `canceled`', () => {
  const types = [...eventTypeTexts.keys()]
  expect(types.filter((type) => /canceled|labeled|fulfilment|ised\b|ising\b|edited$/.test(type))).toEqual([
    'order.edited',
    'subscription.billing_edited',
  ])
})

const strict = { additionalProperties: false }
const members = Type.Record(Type.String(), Type.Unknown())
/** Row of a declaration's `types` with members that only the catalogue has. */
const typeRow = Type.Object(
  {
    ...DeclarationSchema.properties.types.items.properties,
    since: Type.Optional(Type.String()),
    example: Type.Optional(members),
    without: Type.Optional(Type.Array(Type.String())),
  },
  strict,
)
const sample = Type.Object(
  {
    raw: Type.String(),
    type: Type.Optional(Type.String()),
    payload: Type.Optional(members),
    like: Type.Optional(Type.String()),
    with: Type.Optional(members),
  },
  strict,
)

describe.each(Object.keys(eventTables))('data of %s', (provider) => {
  const read = async (name: string): Promise<readonly Readonly<Record<string, unknown>>[]> =>
    (await import(`#config/providers/built-in/${provider}/${name}.yaml`)).default
  const problemsOf = (schema: TSchema, data: unknown) =>
    Array.from(Value.Errors(Type.Array(schema), data), ({ path, message }) => `${path}: ${message}`)

  test(`types.yaml of ${provider}: every row has the form of a declaration's types, with examples`, async () => {
    expect(problemsOf(typeRow, await read('types'))).toEqual([])
  })

  test(`samples.yaml of ${provider}: every entry has a raw type of types.yaml, and either "payload" or a "like" that names an earlier entry`, async () => {
    const raws = (await read('types')).map(({ raw }) => raw)
    const samples = await read('samples')
    const names = samples.map(({ raw, type }) => (type === undefined ? raw : undefined))
    expect(problemsOf(sample, samples)).toEqual([])
    expect(samples.filter(({ raw }) => !raws.includes(raw))).toEqual([])
    expect(samples.filter(({ payload, like }) => (payload === undefined) === (like === undefined))).toEqual(
      [],
    )
    const lost = samples.filter(
      ({ like }, index) => like !== undefined && !names.slice(0, index).includes(like),
    )
    expect(lost).toEqual([])
  })
})
