import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { eventCatalogue } from '../../../internal/providers/index.ts'
import { isEvent } from './event.ts'
import { eventSamples } from './event-samples.generated.ts'

test('event samples: every type of the catalogue has sample payloads', () => {
  const expected = eventCatalogue.map(({ type, providers }) => [
    type,
    providers.map(({ provider, providerRawType, example }) => ({
      provider,
      providerRawType,
      payload: example,
    })),
  ])
  const samples = Object.entries(eventSamples).map(([type, json]) => [type, JSON.parse(json) as unknown])
  expect(samples).toEqual(expected)
})

test.each(['index', 'fetch', 'express', 'fastify', 'postgres', 'webhooks'])(
  'event samples: the bundle of %s does not contain the samples',
  async (entry) => {
    const built = await Bun.build({
      entrypoints: [join(import.meta.dir, `${entry}.ts`)],
      target: 'browser',
      minify: true,
    })
    expect(await built.outputs[0]?.text()).not.toContain('Acme')
    expect(built.outputs[0]?.size).toBeLessThan(64 * 1024)
  },
)

const fields = {
  id: 'evt_1',
  provider: 'card',
  providerRawType: 'x',
  type: 'card.x',
  tenantId: 'ten_1',
  payload: {},
  headers: {},
}
const others: [what: string, value: unknown][] = [
  ['null', null],
  ['a text', 'text'],
  ['an object without an id', { ...fields, id: undefined }],
  ['a payload that is null', { ...fields, payload: null }],
]
test.each(others)('isEvent: %s is not an event', (_what, value) => {
  expect(isEvent(value)).toBe(false)
})
