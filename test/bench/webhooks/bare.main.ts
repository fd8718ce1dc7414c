/**
 * Baseline for intake: an Elysia server that inserts each body by the same batched statement as Latchkey, without parsing, tenants,
 * signatures, headers or logs. Prints its port.
 */
import { randomBytes } from 'node:crypto'
import { Elysia } from 'elysia'
import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
import { storeBatch } from '#internal/events/index.ts'
import { EventQueue } from '#internal/intake/index.ts'
import { createPool } from '#internal/storage/index.ts'

const pool = createPool({
  url: process.env.BARE_DATABASE_URL ?? '',
  applicationName: 'bare',
  connectionsMax: 10,
  queryTimeoutMs: 2_000,
  connectTimeoutMs: 2_000,
})
const tenantIds = (process.env.BARE_TENANT_IDS ?? '').split(',') as TenantId[]
const queue = new EventQueue({
  storeBatch: (events) =>
    storeBatch(
      { pool, wake: () => undefined, onError: (error) => process.stderr.write(`${String(error)}\n`) },
      events,
    ),
  spool: async () => 'unavailable',
})
let count = 0

const app = new Elysia({ serve: { reusePort: false } })
  .post(
    '/insert',
    async ({ body }) => {
      const payload = body as string
      const receivedAtMs = Date.now()
      count += 1
      const acceptance = await queue.accept({
        id: createEventId(receivedAtMs, 90),
        dedupeKey: randomBytes(16).toString('hex'),
        tenantId: tenantIds[count % tenantIds.length] as TenantId,
        provider: 'generic',
        sourceEventId: `evt_bare_${count}`,
        rawType: 'order.created',
        type: 'order.created',
        occurredAtMs: receivedAtMs,
        receivedAtMs,
        headers:
          '{"host":"127.0.0.1","content-type":"application/json","content-length":"1024","latchkey-hops":"1"}',
        payload,
        payloadBytes: payload.length,
        expiresOn: dayAfter(receivedAtMs, 90),
        payloadExpiresOn: dayAfter(receivedAtMs, 30),
        dedupeExpiresOn: dayAfter(receivedAtMs, 90),
        origin: { kind: 'provider' },
        state: 'accepted',
      })
      return new Response('{"ok":true}', {
        status: acceptance === 'stored' ? 200 : 503,
        headers: { 'Content-Type': 'application/json' },
      })
    },
    { parse: 'text' },
  )
  .listen({ port: 0, hostname: '127.0.0.1' })
process.stdout.write(`${app.server?.port}\n`)
