import { afterEach, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { removeStores } from '#internal/dev/index.ts'
import { tenantIdOfUid } from '#internal/tenants/index.ts'
import { type DevServer, startDevServer } from '#test/support/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'

const sampleSecret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='
let server: DevServer | undefined
const dataDir = scratchFolder()
afterEach(async () => {
  server?.signal('SIGKILL')
  await server?.exited
  await removeStores(dataDir)
})

test('what the sample tenant’s callback gets is checked and shown, on the page and at the terminal', async () => {
  server = startDevServer({ dataDir })
  const { sink } = await server.ready()
  const body = JSON.stringify({
    ...{ id: 'evt_1', provider: 'card', type: 'chargeback.under_review', payload: {} },
    tenantId: tenantIdOfUid('folder:demo/demo'),
  })
  const now = new Date()
  const answer = await fetch(sink, {
    method: 'POST',
    headers: {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(sampleSecret).sign('evt_1', now, body),
    },
    body,
  })
  expect(await answer.json()).toEqual({ number: 1, attempt: 1, signature: 'ok' })
  await server.prints('card chargeback.under_review → demo  evt_1  signature ok\n')
  expect(await (await fetch(sink)).text()).toContain('<td class="good">✓ ok</td>')
  server.signal('SIGINT')
  expect(await server.exited).toBe(0)
}, 60_000)
