import { beforeAll, describe, expect, test } from 'bun:test'
import { startLoad } from './node-load.ts'
import { bringRelease, podsAre, serviceUrl, stepMsMax } from './node-release.ts'
import { openShop, payloadIdOf, type Shop, unsigned } from './node-shop.ts'

const eventsCount = 1_500
const callersCount = 8
let shop: Shop

/** Autoscalers that look often and do not wait: what is tried is that they go by our figures. */
const autoscaling = {
  api: {
    autoscaling: {
      ...{ enabled: true, minReplicas: 1, maxReplicas: 3, targetCpuPercent: 300 },
      behavior: { scaleDown: { stabilizationWindowSeconds: 5 } },
    },
  },
  forwarder: {
    autoscaling: {
      ...{ mode: 'keda', minReplicas: 1, maxReplicas: 4, targets: { depth: 100, ageSeconds: 600 } },
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
    'brings forwarders from one to four by what waits, and back, and no attempt is lost',
    async () => {
      await podsAre('forwarder', (count) => count === 1)
      const from = await shop.callCount()
      // One forwarder has some 64 calls under way for a tenant: this lasts until there are more of them.
      await shop.delay(5_000)
      const startedMs = performance.now()
      const load = startLoad({ url: shop.webhookUrl, perSecond: 200, eventsMax: eventsCount })
      const { acknowledged, failures } = await load.ended
      expect([acknowledged.size, failures]).toEqual([eventsCount, []])
      await podsAre('forwarder', (count) => count === 4)
      print('four forwarders', startedMs)
      await shop.delay(0)
      const calls = await shop.received(acknowledged, from)
      const deliveredMs = performance.now()
      await podsAre('forwarder', (count) => count === 1)
      print('one again', deliveredMs)

      // An attempt whose end was not written would have been made again.
      expect(calls.map(payloadIdOf).toSorted()).toEqual([...acknowledged].toSorted())
      expect((await shop.callCount()) - from).toBe(eventsCount)
      expect(unsigned(calls, await shop.secret('acme-callback', 'signingSecret'))).toEqual([])
    },
    stepMsMax,
  )

  test(
    'brings pods of the API by processor time, and takes them away',
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
        print('more of the API', startedMs)
      } finally {
        isOver = true
      }
      await Promise.all(callers)
      const calmMs = performance.now()
      await podsAre('api', (count) => count === 1)
      print('one of the API again', calmMs)
      expect([...statuses]).toEqual([200])
    },
    stepMsMax,
  )
})

/**
 * The status of taking a lock, by a connection of its own, which may lead to another pod; undefined without an answer, since a busy
 * machine may lead to a pod that is gone a moment longer. What a change may cost is held elsewhere.
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
