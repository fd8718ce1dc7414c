import { afterAll, beforeAll, expect, test } from 'bun:test'
import { until } from '#test/support/until.ts'
import { printCounts } from './event-ledger.ts'
import { answersOf, type EventLoad } from './event-load.ts'
import { callbackYaml, type EventScene, openEventScene, tenantAt } from './event-scene.ts'

const slug = 'puller'
const apiKey = 'lk_test_puller_0123456789abcdef0123456789abcd'
const leaseSeconds = 2
const pulledMsMax = 60_000
const callMsMax = 5_000
const restMs = 20

let scene: EventScene
let callback: Bun.Server<undefined>

beforeAll(async () => {
  // Deliveries to the callback are not counted here.
  callback = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(null, { status: 204 }) })
  const yaml = tenantAt(slug, apiKey, callbackYaml(`http://127.0.0.1:${callback.port}/`))
  scene = await openEventScene({
    manifests: yaml.replace(/scopes: \[.*?\]/, 'scopes: [webhooks, events, "payloads:read"]'),
  })
}, 60_000)
afterAll(async () => {
  await scene?.close()
  await callback?.stop(true)
})

/** Calls the API; returns undefined without a usable answer. */
async function call<Answer>(
  method: string,
  name: string,
  action: string,
  body: object,
): Promise<Answer | undefined> {
  try {
    const answer = await fetch(`${scene.api.url}/v1/subscriptions/${name}${action}`, {
      ...{ method, body: JSON.stringify(body), signal: AbortSignal.timeout(callMsMax) },
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
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
function startConsumer(name: string, load: EventLoad): Consumer {
  let isStopping = false
  let crashes = 0
  const consuming = (async () => {
    while (!isStopping) {
      const pulled = await call<{ events: { payload: { id: string } }[]; ackToken?: string }>(
        ...(['POST', name, '/pull', { limit: 50, leaseSeconds }] as const),
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
      await call('POST', name, '/ack', { ackToken: pulled.ackToken })
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

test.each(faults)(
  'pull, %s under load: no acknowledged event is lost or passed',
  async (fault, inject) => {
    const name = `s-${crypto.randomUUID().slice(0, 8)}`
    await until('the subscription', async () => (await call('PUT', name, '', {})) !== undefined)
    const load = scene.startLoad({ slug })
    const consumer = startConsumer(name, load)
    await load.untilMore(200)
    await inject(load)
    await load.untilMore(200, 200)
    await load.end()
    const all = () => load.ledger.missing().length === 0
    // Events that were not pulled are left for the test to report.
    await until('all acknowledged events', all, pulledMsMax).catch(() => undefined)
    await consumer.stop()
    const counts = load.ledger.counts()
    printCounts(
      `pull, ${fault}`,
      counts,
      `${answersOf(load)}; the consumer forgot ${consumer.crashes()} pulls`,
    )
    expect(counts.acknowledged).toBe(counts.sent)
    expect(counts.lost).toBe(0)
  },
  120_000,
)
