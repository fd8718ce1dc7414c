import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { Latchkey } from './index.ts'

let api: TestApi
let latchkey: Latchkey
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterAll(() => api.close())

/** Returns options with a key that no other test uses. */
function fresh() {
  return { scope: 'once', key: crypto.randomUUID() }
}

test.each([
  ['an object', { id: 'ch_1', lines: [1, null] }, { id: 'ch_1', lines: [1, null] }],
  ['a text', 'é\u0000', 'é\u0000'],
  ['nothing, as null', undefined, null],
])(
  'once: runs the work once, and replays its result for a repetition: %s',
  async (_name, value, replayed) => {
    const address = fresh()
    const ran: unknown = await latchkey.once<unknown>(address, () => value)
    expect(ran).toEqual({ kind: 'ran', value, guarded: true })
    expect(await latchkey.once<unknown>(address, () => expect.unreachable())).toEqual({
      kind: 'replayed',
      value: replayed,
    })
  },
)
