/**
 * Baseline for intake: an Elysia server that inserts each body by the same statement as Latchkey, without parsing, tenants, signatures,
 * headers, logs, circuit breaker and spool. It uses `BatchWriter` with its defaults, so that no setting of Latchkey's event queue affects it: an event that finds
 * no statement in flight is sent at once and alone; those that arrive meanwhile share the next statement. On two cores this was the fastest
 * way at each rate: one statement per event on ten connections took as long at up to 500 events/s, longer above, and reached a third of the
 * highest rate. Prints its port.
 */
import { randomBytes } from 'node:crypto'
import { Elysia } from 'elysia'
import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
import { type Acceptance, type ReceivedEvent, storeBatch } from '#internal/events/index.ts'
import { BatchWriter, createPool } from '#internal/storage/index.ts'

const pool = createPool({
  url: process.env.BARE_DATABASE_URL ?? '',
  applicationName: 'bare',
  connectionsMax: 1,
  queryTimeoutMs: 2_000,
  connectTimeoutMs: 2_000,
})
const tenantIds = (process.env.BARE_TENANT_IDS ?? '').split(',') as TenantId[]
const store = {
  pool,
  wake: () => undefined,
  onError: (error: unknown) => void process.stderr.write(`${String(error)}\n`),
}
interface Waiting {
  readonly event: ReceivedEvent
  resolve(acceptance: Acceptance): void
}
const writer = new BatchWriter<Waiting>({
  itemsMax: 500,
  write: async (batch) => {
    batch.sort((a, b) => (a.event.dedupeKey < b.event.dedupeKey ? -1 : 1))
    const outcome = await storeBatch(
      store,
      batch.map(({ event }) => event),
    )
    for (const [at, { resolve }] of batch.entries())
      resolve(outcome.kind === 'completed' ? (outcome.acceptances[at] ?? 'unavailable') : 'unavailable')
  },
})
const accept = (event: ReceivedEvent) => new Promise<Acceptance>((resolve) => writer.add({ event, resolve }))
let count = 0

const app = new Elysia({ serve: { reusePort: false } })
  .post(
    '/insert',
    async ({ body }) => {
      const payload = body as string
      const receivedAtMs = Date.now()
      count += 1
      const acceptance = await accept({
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
