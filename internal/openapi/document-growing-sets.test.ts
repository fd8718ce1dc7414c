import { expect, test } from 'bun:test'
import { testLimits } from '#test/support/api.ts'
import { internalDocument } from './internal.ts'
import { publicContract } from './public.ts'

/** Sets of values that no version of the path adds to: states of what Latchkey does, on which callers branch, a yes or no, and the kind of a variant. */
const closed = [
  'CallbackAnswered.kind',
  'CallbackFailed.kind',
  'EventDetail.attempts[].outcome',
  'EventRetried.change',
  'EventSummary.state',
  'Execution.state',
  'Guardrail.decision',
  'LimitUsage.state',
  'NotificationOrigin.kind',
  'ProviderOrigin.kind',
  'Replay.filter.state',
  'Replay.state',
  'ServiceOrigin.kind',
  'Simulation.state',
  'SimulationOrigin.kind',
  'TenantDetail.conditions[].status',
  'TenantNotAllowed.message',
  'TestOrigin.kind',
]

type Schema = Readonly<Record<string, unknown>>
interface Place {
  readonly at: string
  readonly schema: Schema
}

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns every set of values that Latchkey sends: in answers, and in calls to callbacks. */
function sentSets(document: object): Place[] {
  const seen = new Set<string>()
  const found: Place[] = []
  function visit(value: unknown, at: string): void {
    if (Array.isArray(value)) for (const each of value) visit(each, at)
    if (!isObject(value)) return
    if (typeof value['$ref'] === 'string') {
      visitComponent(value['$ref'])
      return
    }
    if (Array.isArray(value['enum']) || typeof value['const'] === 'string') found.push({ at, schema: value })
    for (const [name, inner] of Object.entries(value))
      if (name === 'properties' && isObject(inner))
        for (const [property, schema] of Object.entries(inner)) visit(schema, `${at}.${property}`)
      else if (name === 'items') visit(inner, `${at}[]`)
      else if (!['enum', 'const', 'example', 'examples', 'default'].includes(name)) visit(inner, at)
  }
  function visitComponent(ref: string): void {
    if (seen.has(ref)) return
    seen.add(ref)
    const parts = ref.slice(2).split('/')
    visit(
      parts.reduce<unknown>((from, part) => (isObject(from) ? from[part] : undefined), document),
      parts.at(-1) ?? '',
    )
  }
  const operationsOf = (key: string) =>
    Object.entries((document as Schema)[key] ?? {}).flatMap(([path, methods]) =>
      Object.entries(methods as Schema).map(
        ([method, operation]) => [`${method} ${path}`, operation as Schema] as const,
      ),
    )
  for (const [name, operation] of operationsOf('paths')) visit(operation['responses'], name)
  for (const [name, operation] of operationsOf('webhooks')) visit(operation['requestBody'], name)
  return found
}

const sets = [publicContract(testLimits), internalDocument()].flatMap(sentSets)

test('growing sets: the check finds sets of values in responses, in nested objects and in calls to callbacks', () => {
  const places = sets.map(({ at }) => at)
  for (const at of ['Error.code', 'TenantDetail.spec.providers[].name', 'Event.headers.latchkey-origin'])
    expect(places).toContain(at)
})

test('growing sets: the schema of an event’s origin states that variants may be added', () => {
  expect(internalDocument().components.schemas['EventOrigin']).toHaveProperty('x-may-grow', true)
})

test('growing sets: every set of values that Latchkey sends has `x-may-grow` or is listed as closed', () => {
  const withoutMark = sets.filter(({ schema }) => schema['x-may-grow'] !== true).map(({ at }) => at)
  expect([...new Set(withoutMark)].toSorted()).toEqual(closed)
})
