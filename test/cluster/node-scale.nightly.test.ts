import { beforeAll, describe, expect, test } from 'bun:test'
import { startLoad } from './node-load.ts'
import { bringRelease, podsAre, serviceUrl, stepMsMax } from './node-release.ts'
import { openShop, payloadIdOf, type Shop, unsigned } from './node-shop.ts'

const eventsCount = 1_500
const callersCount = 8
let shop: Shop

/** Autoscalers with short intervals: the tests check that they scale on our metrics. */
const autoscaling = {
  api: {
    autoscaling: {
      enabled: true,
      minReplicas: 1,
      maxReplicas: 3,
      targetCpuPercent: 300,
      behavior: { scaleDown: { stabilizationWindowSeconds: 5 } },
    },
  },
  forwarder: {
    autoscaling: {
      mode: 'keda',
      minReplicas: 1,
      maxReplicas: 4,
      targets: { depth: 100, ageSeconds: 600 },
      behavior: { scaleDown: { stabilizationWindowSeconds: 0 } },
      keda: { serverAddress: 'http://prometheus.monitoring.svc:9090', pollingSeconds: 5 },
    },
  },
}

beforeAll(async () => {
  await bringRelease(autoscaling)
  shop = await openShop()
}, stepMsMax)

describe('autoscaling', () => {
  test(
    'autoscaling: due deliveries scale forwarders from one to four and back, without a lost attempt',
    async () => {
      await podsAre('forwarder', (count) => count === 1)
      const from = await shop.callCount()
      // One forwarder has about 64 concurrent attempts per tenant, so the backlog lasts until more forwarders run.
      await shop.delay(5_000)
      const startedMs = performance.now()
      const load = startLoad({ url: shop.webhookUrl, perSecond: 200, eventsMax: eventsCount })
      const { acknowledged, failures } = await load.ended
      expect([acknowledged.size, failures]).toEqual([eventsCount, []])
      await podsAre('forwarder', (count) => count === 4)
      print('scaled up to four forwarders', startedMs)
      await shop.delay(0)
      const calls = await shop.received(acknowledged, from)
      const deliveredMs = performance.now()
      await podsAre('forwarder', (count) => count === 1)
      print('scaled down to one forwarder', deliveredMs)

      // A delivery whose result was lost would have been attempted again.
      expect(calls.map(payloadIdOf).toSorted()).toEqual([...acknowledged].toSorted())
      expect((await shop.callCount()) - from).toBe(eventsCount)
      expect(unsigned(calls, await shop.secret('acme-callback', 'signingSecret'))).toEqual([])
    },
    stepMsMax,
  )

  test(
    'autoscaling: CPU use scales API pods up and down',
    async () => {
      await podsAre('api', (count) => count === 1)
      const Authorization = `Bearer ${await shop.secret('acme-key-default', 'apiKey')}`
      const statuses = new Set<number>()
      let isOver = false
      const caller = async () => {
        while (!isOver) {
          const status = await lock(Authorization)
          if (status !== undefined) statuses.add(status)
        }
      }
      const startedMs = performance.now()
      const callers = Array.from({ length: callersCount }, caller)
      try {
        await podsAre('api', (count) => count > 1)
        print('scaled up the API', startedMs)
      } finally {
        isOver = true
      }
      await Promise.all(callers)
      const calmMs = performance.now()
      await podsAre('api', (count) => count === 1)
      print('scaled down the API to one pod', calmMs)
      expect([...statuses]).toEqual([200])
    },
    stepMsMax,
  )
})

/**
 * Returns the status of acquiring a lock by a new connection, which may reach any pod; undefined without an answer, since a busy
 * machine may route to a terminated pod for a moment. `node-changes.test.ts` bounds the effect of changes.
 */
async function lock(Authorization: string): Promise<number | undefined> {
  const body = JSON.stringify({ scope: 'load', key: crypto.randomUUID(), lockSeconds: 1 })
  const call = { method: 'POST', headers: { Authorization }, body, keepalive: false }
  try {
    const response = await fetch(`${serviceUrl}/v1/record`, call)
    await response.arrayBuffer()
    return response.status
  } catch {
    return undefined
  }
}

function print(what: string, sinceMs: number): void {
  process.stdout.write(`${what}: after ${((performance.now() - sinceMs) / 1000).toFixed(1)} s\n`)
}
