import { describe, expect, test } from 'bun:test'
import { testLimits } from '#test/support/api.ts'
import { internalDocument } from './internal.ts'
import { publicContract } from './public.ts'

interface Named {
  readonly name: string
  readonly schema: Readonly<Record<string, unknown>>
  readonly place: string
}

const documents: readonly [string, object][] = [
  ['public', publicContract(testLimits)],
  ['internal', internalDocument()],
]
const words = documents.flatMap(([title, document]) => namedIn(document, title, document))

/** Returns every property and every parameter under a value, except those of examples. */
function namedIn(value: unknown, place: string, document: object): Named[] {
  if (Array.isArray(value)) return value.flatMap((each) => namedIn(each, place, document))
  if (!isObject(value)) return []
  const { properties, name, in: where, schema } = value
  const own = isObject(properties) ? Object.entries(properties) : []
  const parameters =
    typeof name === 'string' && where !== undefined && where !== 'header' ? [[name, schema] as const] : []
  const found = [...own, ...parameters].flatMap(([each, inner]) =>
    isObject(inner) ? [{ name: each, schema: resolved(inner, document), place }] : [],
  )
  const inner = Object.entries(value).filter(([key]) => key !== 'example' && key !== 'examples')
  return [...found, ...inner.flatMap(([key, each]) => namedIn(each, `${place} ${key}`, document))]
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function resolved(schema: Readonly<Record<string, unknown>>, document: object) {
  const { $ref } = schema
  if (typeof $ref !== 'string') return schema
  const target = $ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), document)
  return isObject(target) ? target : schema
}

/** Returns the JSON types that a schema allows, without null. */
function typesOf(schema: Readonly<Record<string, unknown>>): readonly string[] {
  const { type, anyOf, oneOf, const: only } = schema
  const parts = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : []
  const types = Array.isArray(type) ? type.map(String) : type === undefined ? [] : [String(type)]
  const all = [
    ...types,
    ...parts.flatMap((part) => (isObject(part) ? typesOf(part) : [])),
    ...(types.length === 0 && only !== undefined ? [typeof only] : []),
  ]
  return [...new Set(all)].filter((each) => each !== 'null').toSorted()
}

/** Synonyms that neither document uses, with the name that stands for each. */
const replaced: Readonly<Record<string, string>> = {
  rawType: 'providerRawType',
  round: 'cycle',
  settledAt: 'completedAt',
  tenant: 'tenantId',
  job: 'replay',
  failedCause: 'cause',
  isQueued: 'isNew',
  isSuspended: 'suspended',
  heldUntil: 'expiresAt',
  endsAt: 'expiresAt',
  breakerUntil: 'breakerEndsAt',
  answerCut: 'isAnswerCut',
  appendEvents: 'ingestEvents',
  meter: 'kind',
  at: 'occurredAt',
  until: 'expiresAt',
  by: 'updatedBy',
  setAt: 'updatedAt',
}

/** Names with several types, and the reason. */
const severalTypes: Readonly<Record<string, string>> = {
  body: 'a saved response can be any JSON value',
  default: 'value of a setting',
  value: 'value of a setting',
  status: 'HTTP status; of a condition `True` or `False`, as Kubernetes has it',
  limit: 'size of a page; in limits of usage the name of one',
  limits: 'limits of a tenant with their usage; in `spec` of a Tenant by name',
  origin: 'origin of an event; in filters its kind',
  outcome: 'of an attempt or a replayed event, in a word; of a replay, the counts of these words',
  payload: 'JSON of an event; in the form of `gateway` the vendor’s text',
  replay: 'a replay; in permissions the right to replay',
}

describe('vocabulary of both documents', () => {
  test('vocabulary: the check finds the names of both documents', () => {
    const names = new Set(words.map(({ name }) => name))
    for (const name of ['providerRawType', 'simulationId', 'tenantId', 'cycle', 'expectedVersion'])
      expect(names).toContain(name)
  })

  test.each(Object.entries(replaced))('vocabulary: no document uses %s, the former name of %s', (synonym) => {
    expect(words.filter(({ name }) => name === synonym).map(({ place }) => place)).toEqual([])
  })

  test('vocabulary: milliseconds, seconds, days, bytes, counts, limits and versions are integers with a type of their own', () => {
    const isNumber =
      /(Ms|Seconds|Days|Bytes|BytesMax|Count|Version)$|^(version|count|limit|fence|cycle|attempt)$/
    const wrong = words.filter(
      ({ name, schema }) =>
        isNumber.test(name) && !(name in severalTypes) && typesOf(schema).join() !== 'integer',
    )
    // Limits of a tenant are objects named after what they limit.
    const isLimit = ({ name, schema }: Named) => name === 'recordBytes' && typesOf(schema).join() === 'object'
    expect(wrong.filter((each) => !isLimit(each)).map(({ name, place }) => [name, place])).toEqual([])
  })

  test('vocabulary: query parameters that are numbers state their minimum and maximum', () => {
    const numbers = words.filter(
      ({ place, schema }) => place.includes('parameters') && typesOf(schema).join() === 'integer',
    )
    expect(numbers.length).toBeGreaterThan(5)
    for (const { name, schema } of numbers)
      expect([name, typeof schema['minimum'], typeof schema['maximum']]).toEqual([name, 'number', 'number'])
  })

  test('vocabulary: a name has one type in both documents', () => {
    const byName = Map.groupBy(words, ({ name }) => name)
    const several = [...byName].flatMap(([name, uses]) => {
      const types = [...new Set(uses.map(({ schema }) => typesOf(schema).join('|')))].toSorted()
      return types.length > 1 && !(name in severalTypes) ? [`${name}: ${types.join(', ')}`] : []
    })
    expect(several).toEqual([])
  })

  test('vocabulary: every name that ends in `At` has the type of a time', () => {
    const times = words.filter(({ name }) => /[a-z]At$/.test(name))
    expect(times.length).toBeGreaterThan(20)
    expect(times.filter(({ schema }) => typesOf(schema).join() !== 'string').map(({ name }) => name)).toEqual(
      [],
    )
  })

  test('vocabulary: every path of a collection is plural', () => {
    const singular = ['lookup', 'override', 'payload', 'callback', 'test', 'resume', 'usage']
    const actions = ['advance', 'cancel', 'check', 'explain', 'retry', 'seek']
    const segments = new Set(
      Object.keys(internalDocument().paths).flatMap((path) => path.split('/').slice(3)),
    )
    const odd = [...segments].filter(
      (segment) => !/^\{|s$|\.json$/.test(segment) && ![...singular, ...actions].includes(segment),
    )
    expect(odd).toEqual([])
  })
})
