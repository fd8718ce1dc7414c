// Calls the public API as a service would, with the types that openapi-typescript generates from its document.
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import createClient from 'openapi-fetch'
import { Latchkey, LatchkeyRequestError } from '#clients/typescript/src/index.ts'
import type { components, paths } from './public.generated.ts'
import { dataOf, environment, errorOf } from './results.ts'

const headers = { Authorization: `Bearer ${environment('API_KEY')}` }
const client = createClient<paths>({ baseUrl: environment('API_URL'), headers })
type Checked = components['schemas']['CheckAnswer']

/** Returns what a check found, in a union that only discriminated results can fill. */
function foundBy(
  checked: Checked,
): { status: number } | { token: string; fence: number } | { waitMs: number } {
  if (checked.cached) return { status: checked.record.status }
  if (checked.locked) return { token: checked.lockToken, fence: checked.fence }
  return { waitMs: checked.retryAfterMs }
}

async function records() {
  const address = { scope: 'clients', key: randomUUID() }
  const taken = foundBy(dataOf(await client.POST('/v1/record', { body: { ...address, lockSeconds: 30 } })))
  assert('token' in taken)
  const busy = foundBy(dataOf(await client.POST('/v1/record', { body: address })))
  assert('waitMs' in busy && busy.waitMs > 0)

  const lock = { ...address, lockToken: taken.token }
  const extended = dataOf(await client.POST('/v1/record/extend', { body: { ...lock, lockSeconds: 60 } }))
  assert(extended.ok && extended.fence === taken.fence && extended.expiresInMs > 30_000)
  const lost = await client.POST('/v1/record/extend', { body: { ...lock, lockToken: 'another' } })
  const lostCode: components['schemas']['Error']['code'] = errorOf(lost).code
  assert.equal(lostCode, 'lock_lost')

  const saved = { status: 201, headers: { location: '/orders/1' }, body: { id: 1, lines: [] } }
  assert(dataOf(await client.PUT('/v1/record', { body: { ...lock, ...saved } })).ok)
  assert.deepEqual(foundBy(dataOf(await client.POST('/v1/record', { body: address }))), { status: 201 })

  const params = { query: address }
  const found = dataOf(await client.GET('/v1/record', { params }))
  assert(found.cached)
  assert.deepEqual(found.record, saved)

  await batch(address)
  assert(dataOf(await client.DELETE('/v1/record', { params })).existed)
  assert(!dataOf(await client.GET('/v1/record', { params })).cached)
}

async function batch(address: { scope: string; key: string }) {
  const fresh = { scope: 'clients', key: randomUUID() }
  const checks = [address, fresh, { ...fresh, lockSeconds: 901 }]
  const { results } = dataOf(await client.POST('/v1/record/batch', { body: { checks } }))
  const kinds = results.map((each) => ('code' in each ? each.code : Object.keys(foundBy(each))[0]))
  assert.deepEqual(kinds, ['status', 'token', 'invalid_request'])
}

async function webhooks() {
  const event = { id: randomUUID(), type: 'order.created', occurredAt: new Date().toISOString() }
  const text = JSON.stringify(event)
  const seconds = Math.floor(Date.now() / 1000)
  const mac = createHmac('sha256', environment('PROVIDER_SECRET')).update(`${seconds}.${text}`)
  const signature = { 'X-Service-Signature': `t=${seconds},v1=${mac.digest('hex')}` }
  const call = { body: event, bodySerializer: () => text } as const
  const stored = dataOf(
    await client.POST('/v1/webhooks/{provider}', {
      ...call,
      params: { path: { provider: 'generic' }, header: signature },
    }),
  )
  assert.deepEqual(stored, { ok: true })
  const path = { provider: 'generic', tenantSlug: 'acme' } as const
  const again = dataOf(
    await client.POST('/v1/t/{tenantSlug}/webhooks/{provider}', {
      ...call,
      params: { path, header: signature },
    }),
  )
  // A response of 202 has `queued`; a response of 200 to a repeat has `cached`.
  assert(!('queued' in again) && again.cached)

  const unsigned = await client.POST('/v1/t/{tenantSlug}/webhooks/{provider}', { ...call, params: { path } })
  const refused = errorOf(unsigned)
  assert('error' in refused && refused.error === 'invalid signature')
}

async function simulations() {
  const body = { amount: 4200, currency: 'EUR', outcome: 'won' } as const
  const rehearsed = dataOf(await client.POST('/v1/simulate/chargeback', { body: { ...body, dryRun: true } }))
  assert(rehearsed.dryRun && rehearsed.events.length === 3)
  const header = { 'Idempotency-Key': randomUUID() }
  const start = () => client.POST('/v1/simulate/chargeback', { body, params: { header } })
  const [first, repeated] = [await start(), await start()]
  assert.equal(dataOf(first).simulationId, dataOf(repeated).simulationId)
  assert.equal(repeated.response.headers.get('idempotent-replayed'), 'true')
}

async function eventTypes() {
  const query = { provider: 'gateway' } as const
  const { items } = dataOf(await client.GET('/v1/event-types', { params: { query } }))
  assert(items.length > 0 && items.every(({ type }) => type.includes('.')))
}

/** Checks that the generated client and the client library get the same locks, records and errors from the service. */
async function clientAndLibraryAgree() {
  const latchkey = new Latchkey({ url: environment('API_URL'), apiKey: environment('API_KEY') })
  const address = { scope: 'clients', key: randomUUID() }
  const taken = foundBy(dataOf(await client.POST('/v1/record', { body: { ...address, fingerprint: 'a' } })))
  assert('token' in taken)
  const work = () => assert.fail('work must not run')
  assert.equal((await latchkey.once({ ...address, waitMs: 0 }, work)).kind, 'busy')
  assert.equal((await latchkey.once({ ...address, fingerprint: 'b' }, work)).kind, 'reused_key')
  const saved = { status: 201, headers: { location: '/orders/1' }, body: { id: 1, lines: ['ü'] } }
  const lock = { ...address, lockToken: taken.token }
  assert(dataOf(await client.PUT('/v1/record', { body: { ...lock, ...saved } })).ok)
  assert.deepEqual(await latchkey.once(address, work), { kind: 'replayed', value: saved.body })

  const params = { query: address }
  const found = dataOf(await client.GET('/v1/record', { params }))
  const stored: components['schemas']['SavedRecord'] | undefined = await latchkey.fetchRecord(address)
  assert(found.cached)
  assert.deepEqual(stored, found.record)
  assert(await latchkey.removeRecord(address))
  assert(!dataOf(await client.GET('/v1/record', { params })).cached)

  const ran = await latchkey.once(address, async ({ fence, takenOver, attemptId }) => {
    const busy = foundBy(dataOf(await client.POST('/v1/record', { body: address })))
    assert('waitMs' in busy)
    // With the same attempt id, the call returns the lock that the library holds, not a new one.
    const own = dataOf(await client.POST('/v1/record', { body: { ...address, attemptId } }))
    assert(!own.cached && own.locked)
    assert.deepEqual({ fence, takenOver }, { fence: own.fence, takenOver: own.takenOver ?? false })
    return { fence: own.fence }
  })
  assert(ran.kind === 'ran' && ran.value.fence > taken.fence)
  const own = dataOf(await client.GET('/v1/record', { params }))
  assert(own.cached)
  assert.deepEqual(own.record, { status: 200, headers: {}, body: ran.value })

  const refused = errorOf(await client.POST('/v1/record', { body: { ...address, lockSeconds: 901 } }))
  const error = await latchkey.once({ ...address, lockSeconds: 901 }, work).catch((caught: unknown) => caught)
  assert(error instanceof LatchkeyRequestError)
  assert.equal(error.code, refused.code)
  assert.equal(error.status, refused.statusCode)
}

await records()
await clientAndLibraryAgree()
await webhooks()
await eventTypes()
await simulations()
console.log('done')
