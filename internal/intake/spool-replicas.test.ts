import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { openRedis } from '#internal/storage/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { type SpoolLab, startSpoolLab } from '#test/support/intake/spool-lab.ts'
import { untilWorks } from '#test/support/stores/redis-connection.ts'
import { replicatedArgs, startReplicaOf } from '#test/support/stores/redis-replica.ts'
import { command, startCluster, startSentinel } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { Spool, spoolKeys } from './spool.ts'

/** Longer than a busy machine holds up a replica. */
const replicaMsMax = 1_200

async function untilTakes(spool: Spool): Promise<void> {
  await until('an event that is taken', async () =>
    (await spool.append(receivedEvent())) === 'queued' ? true : undefined,
  )
}

describe('spool with a replica', () => {
  let lab: SpoolLab
  let replica: TestRedis

  beforeAll(async () => {
    lab = await startSpoolLab(replicatedArgs)
    replica = await startReplicaOf(lab.server)
  })
  afterAll(async () => {
    await lab.stop()
    replica.signal('SIGKILL')
    await replica.stop()
  })
  beforeEach(() => lab.reset())

  const idsAt = async (server: TestRedis) => {
    const [entries] = await command(server, ['XRANGE', spoolKeys.events, '-', '+'])
    return (entries as [string, string[]][]).map(([, fields]) => fields[1])
  }

  test('spool: with a replica, an event is queued only after the replica has stored it', async () => {
    const events = Array.from({ length: 100 }, () => receivedEvent())
    const spool = lab.spool({ replicaMsMax })
    const outcomes = await Promise.all(events.map((event) => spool.append(event)))
    expect(new Set(outcomes)).toEqual(new Set(['queued']))
    expect(await idsAt(replica)).toEqual(events.map(({ id }) => id))
  })

  test('spool: while the replica hangs, refuses an event within the time limit, although the event can remain in the spool', async () => {
    const spool = lab.spool()
    await untilTakes(spool)
    lab.refusals.length = 0
    replica.signal('SIGSTOP')
    const startedMs = performance.now()
    const [refused, next] = [receivedEvent(), receivedEvent()]
    expect(await spool.append(refused)).toBe('unavailable')
    expect(performance.now() - startedMs).toBeLessThan(1_500)
    expect(await spool.append(next)).toBe('unavailable')
    expect(lab.refusals).toEqual(['unconfirmed', 'unconfirmed'])
    const ids = await idsAt(lab.server)
    // The second event was refused without a write, so that a hung replica does not fill the spool.
    expect(ids).toContain(refused.id)
    expect(ids).not.toContain(next.id)
    replica.signal('SIGCONT')
    await untilTakes(spool)
  })

  test('spool: detects added and removed replicas', async () => {
    const spool = lab.spool()
    await command(replica, ['REPLICAOF', 'NO', 'ONE'])
    await until('a master alone', async () => {
      const { replicas } = await lab.redis.durability(spoolKeys.events)
      return replicas === 0 || undefined
    })
    expect(await spool.append(receivedEvent())).toBe('queued')
    await command(replica, ['REPLICAOF', '127.0.0.1', String(lab.server.port)])
    await until('a replica that follows', async () => {
      const [info] = await command(lab.server, ['INFO', 'replication'])
      return /slave\d+:.*state=online/.test(String(info)) || undefined
    })
    // The first write did not wait for the new replica, which the spool did not know yet, so the replica may lack the event.
    expect(await spool.append(receivedEvent())).toBe('unavailable')
    await untilTakes(spool)
    expect((await idsAt(replica)).length).toBeGreaterThan(0)
  })
})

test('spool: queued events survive a Sentinel failover', async () => {
  const topology = await startSentinel()
  const redis = openRedis({ url: topology.url, deadlineMs: 1_500, onError: () => undefined })
  await untilWorks(redis, 'latchkey:spool')
  const spool = new Spool({ redis, vouched: true, replicaMsMax })
  const queued: string[] = []
  const queueOne = async () => {
    const event = receivedEvent()
    if ((await spool.append(event)) === 'queued') queued.push(event.id)
  }
  const untilQueued = (count: number) =>
    until(`${count} events that are taken`, async () => {
      await queueOne()
      return queued.length >= count || undefined
    })
  await untilQueued(50)
  await topology.killMaster()
  await untilQueued(60)
  const [entries] = await command(await topology.master(), ['XRANGE', spoolKeys.events, '-', '+'])
  const there = new Set((entries as [string, string[]][]).map(([, fields]) => fields[1]))
  expect(queued.filter((id) => !there.has(id))).toEqual([])
  await redis.close()
  await topology.stop()
}, 40_000)

test('spool: works on a Redis Cluster with replicas', async () => {
  const cluster = await startCluster({ replicas: true })
  const redis = openRedis({ url: cluster.url, deadlineMs: 1_500, onError: () => undefined })
  await untilWorks(redis, 'latchkey:spool')
  const spool = new Spool({ redis, vouched: true, replicaMsMax })
  const outcomes = await Promise.all(Array.from({ length: 700 }, () => spool.append(receivedEvent())))
  expect(new Set(outcomes)).toEqual(new Set(['queued']))
  expect(await spool.stats()).toMatchObject({ entries: 700 })
  expect(await redis.durability(spoolKeys.events)).toEqual({ syncsFirst: false, replicas: 1 })
  await redis.close()
  await cluster.stop()
}, 40_000)
