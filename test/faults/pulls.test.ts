import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { isNightly } from '#test/support/nightly.ts'
import { until } from '#test/support/until.ts'
import { printCounts } from './event-ledger.ts'
import { answersOf, type EventLoad } from './event-load.ts'
import { callbackYaml, type EventScene, openEventScene, tenantAt } from './event-scene.ts'

/** Tenant that pulls beside a callback, and tenant without one. */
const slugs = ['both', 'pull-only'] as const
type Slug = (typeof slugs)[number]
const keyOf = (slug: Slug) => `lk_test_${slug}_0123456789abcdef0123456789abcd`
const leaseSeconds = 2
const pulledMsMax = 60_000
const callMsMax = 5_000
const restMs = 20

let scene: EventScene
let callback: Bun.Server<undefined>
let pool: Pool

beforeAll(async () => {
  // Accepts deliveries to the callback, which are not counted here.
  callback = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(null, { status: 204 }) })
  const both = tenantAt('both', keyOf('both'), callbackYaml(`http://127.0.0.1:${callback.port}/`))
  const pullOnly = webhookTenantYaml('pull-only', keyOf('pull-only')).replace(/ {2}callback: .*\n/, '')
  scene = await openEventScene({
    manifests: (both + pullOnly).replaceAll(
      /scopes: \[.*?\]/g,
      'scopes: [webhooks, events, "payloads:read"]',
    ),
  })
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: scene.postgres.url, applicationName: 'test', ...bounds })
}, 60_000)
afterAll(async () => {
  await pool?.end()
  await scene?.close()
  await callback?.stop(true)
})

/** A subscription of a tenant. */
interface Reader {
  readonly slug: Slug
  readonly name: string
}

/** Calls the API; returns undefined without a usable answer. */
async function call<Answer>(
  method: string,
  { slug, name }: Reader,
  action: string,
  body: object,
): Promise<Answer | undefined> {
  try {
    const answer = await fetch(`${scene.api.url}/v1/subscriptions/${name}${action}`, {
      method,
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(callMsMax),
      headers: { Authorization: `Bearer ${keyOf(slug)}`, 'Content-Type': 'application/json' },
    })
    return answer.ok ? ((await answer.json()) as Answer) : undefined
  } catch {
    return undefined
  }
}

interface Consumer {
  /** Number of pulls whose events the consumer forgot, as a crash does. */
  readonly crashes: () => number
  stop(): Promise<void>
}

/** Pulls and acknowledges until it is stopped. One in ten times it loses the events before it has handled them, one in ten afterwards. */
function startConsumer(reader: Reader, load: EventLoad): Consumer {
  let isStopping = false
  let crashes = 0
  const consuming = (async () => {
    while (!isStopping) {
      const pulled = await call<{ events: { payload: { id: string } }[]; ackToken?: string }>(
        ...(['POST', reader, '/pull', { limit: 50, leaseSeconds }] as const),
      )
      if (pulled?.ackToken === undefined) {
        await Bun.sleep(restMs)
        continue
      }
      const crash = Math.random()
      if (crash < 0.2) crashes += 1
      if (crash < 0.1) continue
      for (const { payload } of pulled.events) load.ledger.arrived(payload.id)
      if (crash < 0.2) continue
      await call('POST', reader, '/ack', { ackToken: pulled.ackToken })
    }
  })()
  return {
    crashes: () => crashes,
    async stop() {
      isStopping = true
      await consuming
    },
  }
}

const faults: readonly (readonly [fault: string, inject: (load: EventLoad) => Promise<void>])[] = [
  ['SIGKILL of the API', () => scene.restartApi()],
  [
    'SIGKILL of Redis, its file kept',
    async (load) => {
      scene.redis.signal('SIGKILL')
      await load.untilMore(50)
      await scene.redis.restart()
    },
  ],
  [
    'SIGKILL of Postgres, with events in the spool meanwhile',
    async (load) => {
      scene.postgres.signal('SIGKILL')
      await load.untilMore(50, 202)
      await scene.postgres.restart()
    },
  ],
]

/** Each fault with the two ways of pulling; for a change, with one of them in turn. */
const cases = slugs
  .flatMap((slug) => faults.map(([fault, inject]) => [slug, fault, inject] as const))
  .filter((_case, nth) => isNightly || nth % slugs.length === 0)

/** Counts the events of a tenant that are neither processed nor failed, and its queued deliveries. */
async function countWaiting(slug: Slug): Promise<number> {
  const { rows } = await pool.query<[number]>({
    text: `SELECT count(*)::integer FROM events e JOIN tenants t ON t.id = e.tenant_id AND t.slug = $1
      WHERE e.state <> 'processed' OR EXISTS (SELECT FROM deliveries_due d WHERE d.event_id = e.id)
        OR EXISTS (SELECT FROM pulls_due p WHERE p.event_id = e.id)`,
    rowMode: 'array',
    values: [slug],
  })
  return rows[0]?.[0] ?? 0
}

test.each(cases)(
  'pull by tenant %s, %s under load: no acknowledged event is lost or skipped',
  async (slug, fault, inject) => {
    const reader = { slug, name: `s-${crypto.randomUUID().slice(0, 8)}` }
    await until('the subscription', async () => (await call('PUT', reader, '', {})) !== undefined)
    const load = scene.startLoad({ slug })
    const consumer = startConsumer(reader, load)
    await load.untilMore(200)
    await inject(load)
    await load.untilMore(200, 200)
    await load.end()
    const all = () => load.ledger.missing().length === 0
    // Ignores the timeout, since the test reports events that were not pulled.
    await until('all acknowledged events', all, pulledMsMax).catch(() => undefined)
    // An event whose pull the consumer lost is processed only after it is pulled again and acknowledged.
    const isProcessed = async () => (await countWaiting(slug)) === 0
    if (slug === 'pull-only') await until('every event to be processed', isProcessed, pulledMsMax)
    await consumer.stop()
    const counts = load.ledger.counts()
    printCounts(
      `pull, ${slug}, ${fault}`,
      counts,
      `${answersOf(load)}; the consumer forgot ${consumer.crashes()} pulls`,
    )
    expect(counts.acknowledged).toBe(counts.sent)
    expect(counts.lost).toBe(0)
  },
  120_000,
)
