import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { expectDocumented, operations, requestExamples } from '#test/support/documents/contract.ts'
import { simulationTenantYaml } from '#test/support/intake/simulation-calls.ts'

const path = '/v1/simulate/chargeback'

let api: TestApi
beforeAll(async () => {
  api = await startTestApi({ manifests: simulationTenantYaml('acme', testApiKey) })
}, 30_000)
afterAll(() => api.close())

interface Answered {
  readonly simulationId: string
  readonly events: readonly { readonly id: string; readonly type: string; readonly dueAt: string }[]
  readonly dryRun?: true
}

/** Removes ids, and counts times from the first. */
function shape({ simulationId, events, ...rest }: Answered) {
  const first = Date.parse(events[0]?.dueAt ?? '')
  const bare = simulationId.slice('sim_'.length)
  const named = (id: string) => id.toLowerCase().replace(bare, '<simulation>')
  return {
    ...rest,
    events: events.map(({ id, type, dueAt }) => ({
      id: named(id),
      type,
      afterMs: Date.parse(dueAt) - first,
    })),
  }
}

test('public contract: the server responds to every simulation example as documented', async () => {
  const described = operations.find((each) => each.path === path)
  if (!described) throw new Error('the document has no simulations')
  const promised = described.operation.responses['202']?.content['application/json']?.examples
  const examples = requestExamples(described)
  expect([...examples.keys()].toSorted()).toEqual(Object.keys(promised ?? {}).toSorted())
  for (const [name, { body, header }] of examples) {
    const answer = await api.call('POST', path, body, { ...header })
    expect([name, answer.status]).toEqual([name, 202])
    expectDocumented('POST', path, answer)
    const { ok, ...answered } = answer.json as unknown as Answered & { ok: true }
    const example = promised?.[name]
    if (!example) throw new Error(`there is no answer ${name}`)
    const { ok: promisedOk, ...shown } = example.value as Answered & { ok: true }
    expect([ok, promisedOk]).toEqual([true, true])
    expect(shape(answered)).toEqual(shape(shown))
  }
})

test.each([
  ['stripe', 'card'],
  ['paypal', 'wallet'],
])(
  'simulation: the vendor’s name %s is accepted for %s, and requests with either name count as the same request',
  async (vendor, neutral) => {
    const headers = { 'Idempotency-Key': `by-${vendor}` }
    const start = (provider: string) =>
      api.call('POST', path, { amount: 1, currency: 'EUR', provider }, headers)
    const first = await start(vendor)
    expect(first.status).toBe(202)
    const repeat = await start(neutral)
    expect([repeat.status, repeat.json]).toEqual([202, first.json])
    expect((await start('shopify')).status).toBe(400)
  },
)
