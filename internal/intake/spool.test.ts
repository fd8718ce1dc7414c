import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { type SpoolLab, startSpoolLab } from '#test/support/intake/spool-lab.ts'
import { untilWorks } from '#test/support/stores/redis-connection.ts'
import { command } from '#test/support/stores/redis-topology.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { until } from '#test/support/until.ts'
import { encodeEvent, spoolKeys } from './spool.ts'

let lab: SpoolLab

beforeAll(async () => {
  lab = await startSpoolLab()
})
afterAll(() => lab.stop())
beforeEach(async () => {
  await command(lab.server, ['CONFIG', 'SET', 'appendfsync', 'always'])
  await lab.reset()
})

const bytesOf = (event: ReceivedEvent) =>
  encodeEvent(event).reduce((sum, value) => sum + Buffer.byteLength(value), 0)

describe('spool on durable Redis', () => {
  test('spool: keeps the order of events and counts their bytes', async () => {
    const spool = lab.spool()
    const events = Array.from({ length: 1_200 }, (_none, nth) => receivedEvent({ payload: `{"ü":${nth}}` }))
    const outcomes = await Promise.all(events.map((event) => spool.append(event)))
    expect(new Set(outcomes)).toEqual(new Set(['queued']))
    const ids = (await lab.entriesOf(spoolKeys.events)).map(({ id }) => id ?? '')
    expect(ids).toEqual(events.map(({ id }) => id))
    expect(await spool.stats()).toEqual({
      entries: 1_200,
      bytes: events.reduce((sum, event) => sum + bytesOf(event), 0),
      oldestAgeMs: expect.any(Number),
      deadEntries: 0,
      deadBytes: 0,
    })
  })

  test('spool: writes concurrent events in one call', async () => {
    const spool = lab.spool()
    await spool.append(receivedEvent())
    const calls = async () => {
      const [info] = await command(lab.server, ['INFO', 'commandstats'])
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(info))?.[1])
    }
    const before = await calls()
    await Promise.all(Array.from({ length: 300 }, () => spool.append(receivedEvent())))
    expect((await calls()) - before).toBe(1)
  })

  test('spool: events survive kill -9 of Redis', async () => {
    const spool = lab.spool()
    const events = Array.from({ length: 50 }, () => receivedEvent())
    await Promise.all(events.map((event) => spool.append(event)))
    lab.server.signal('SIGKILL')
    await lab.server.restart()
    await untilWorks(lab.redis, 'latchkey:spool')
    expect(await spool.stats()).toMatchObject({ entries: 50 })
  })

  test('spool: stats returns the age of the oldest event', async () => {
    const spool = lab.spool()
    expect((await spool.stats()).oldestAgeMs).toBe(0)
    await spool.append(receivedEvent())
    await until('an age', async () => (await spool.stats()).oldestAgeMs > 20 || undefined)
  })

  test('spool: the events of several processes together can have exactly `bytesMax` bytes', async () => {
    const events = Array.from({ length: 40 }, () =>
      receivedEvent({ payload: `{"a":"${'x'.repeat(1_000)}"}` }),
    )
    const [first] = events
    if (!first) throw new Error('there are forty')
    const bytesMax = bytesOf(first) * 25
    const spools = [1, 2, 3].map(() => lab.spool({ bytesMax }))
    const outcomes = await Promise.all(events.map((event, nth) => spools[nth % 3]?.append(event)))
    expect(outcomes.filter((outcome) => outcome === 'queued')).toHaveLength(25)
    expect(lab.refusals).toEqual(Array(15).fill('full'))
    expect(await lab.spool().stats()).toMatchObject({ entries: 25, bytes: bytesMax })
    expect(await lab.spool({ bytesMax: bytesMax + bytesOf(first) - 1 }).append(first)).toBe('unavailable')
    expect(await lab.spool({ bytesMax: bytesMax + bytesOf(first) }).append(first)).toBe('queued')
  })

  test('spool: one tenant can use exactly a quarter of the spool, over several processes together', async () => {
    const payload = `{"a":"${'x'.repeat(1_000)}"}`
    const tenantId = someTenantId()
    const loud = Array.from({ length: 30 }, () => receivedEvent({ tenantId, payload }))
    const quiet = receivedEvent({ payload })
    const bytesMax = bytesOf(quiet) * 40
    const spools = [1, 2, 3].map(() => lab.spool({ bytesMax }))
    const outcomes = await Promise.all(loud.map((event, nth) => spools[nth % 3]?.append(event)))
    expect(outcomes.filter((outcome) => outcome === 'queued')).toHaveLength(10)
    expect(lab.refusals).toEqual(Array(20).fill('share'))
    const mixed = [receivedEvent({ tenantId, payload }), quiet]
    expect(await Promise.all(mixed.map((event) => spools[0]?.append(event)))).toEqual([
      'unavailable',
      'queued',
    ])
    expect(await lab.shares()).toEqual({ [tenantId]: bytesMax / 4, [quiet.tenantId]: bytesOf(quiet) })
  })

  test('spool: the bytes that each tenant uses are zero after an operator has deleted the stream', async () => {
    const event = receivedEvent()
    const spool = lab.spool({ bytesMax: bytesOf(event) * 4 })
    expect([await spool.append(event), await spool.append(event)]).toEqual(['queued', 'unavailable'])
    await command(lab.server, ['DEL', spoolKeys.events])
    expect(await spool.append(event)).toBe('queued')
  })

  test('spool: dead entries count towards the maximum size until an operator deletes them', async () => {
    const event = receivedEvent()
    await command(
      lab.server,
      ['XADD', spoolKeys.dead, '*', 'reason', 'refused', 'id', 'x'],
      ['HSET', spoolKeys.bytes, 'dead', '1000000'],
    )
    const spool = lab.spool({ bytesMax: 1_000_000 })
    expect(await spool.append(event)).toBe('unavailable')
    await command(lab.server, ['DEL', spoolKeys.dead])
    expect(await spool.append(event)).toBe('queued')
    expect(await spool.stats()).toMatchObject({ bytes: bytesOf(event), deadBytes: 0 })
  })

  test('spool: accepts an event larger than a batch', async () => {
    const event = receivedEvent({ payload: `{"a":"${'ß'.repeat(6 * 1024 * 1024)}"}` })
    const spool = lab.spool()
    const outcomes = await Promise.all(
      [receivedEvent(), event, receivedEvent()].map((each) => spool.append(each)),
    )
    expect(outcomes).toEqual(['queued', 'queued', 'queued'])
    expect((await lab.entriesOf(spoolKeys.events))[1]?.['payload']).toBe(event.payload)
  })

  test('spool: refuses events while Redis is full', async () => {
    await command(lab.server, ['CONFIG', 'SET', 'maxmemory', '1mb'])
    expect(await lab.spool().append(receivedEvent())).toBe('unavailable')
    await command(lab.server, ['CONFIG', 'SET', 'maxmemory', '256mb'])
    expect(lab.refusals).toEqual(['full'])
  })
})

describe('spool on volatile Redis', () => {
  test.each(['everysec', 'no'])(
    'spool: refuses events with appendfsync %s and writes nothing',
    async (value) => {
      await command(lab.server, ['CONFIG', 'SET', 'appendfsync', value])
      const spool = lab.spool()
      expect(await Promise.all([spool.append(receivedEvent()), spool.append(receivedEvent())])).toEqual([
        'unavailable',
        'unavailable',
      ])
      expect(lab.refusals).toEqual(['volatile', 'volatile'])
      expect(await lab.entriesOf(spoolKeys.events)).toEqual([])
    },
  )

  test('spool: notices a weaker appendfsync with the first event, and a stronger one after the cache has expired', async () => {
    const spool = lab.spool({ believedMsMax: 200 })
    expect(await spool.append(receivedEvent())).toBe('queued')
    await command(lab.server, ['CONFIG', 'SET', 'appendfsync', 'everysec'])
    expect(await spool.append(receivedEvent())).toBe('unavailable')
    await command(lab.server, ['CONFIG', 'SET', 'appendfsync', 'always'])
    await until('an event that is taken', async () =>
      (await spool.append(receivedEvent())) === 'queued' ? true : undefined,
    )
    expect(new Set(lab.refusals)).toEqual(new Set(['volatile']))
  })

  test('spool: refuses events if Redis forbids CONFIG, unless the operator guarantees durability', async () => {
    await command(lab.server, ['ACL', 'SETUSER', 'default', '-config'])
    const refused = await lab.spool().append(receivedEvent())
    const vouched = await lab.spool({ vouched: true }).append(receivedEvent())
    await command(lab.server, ['ACL', 'SETUSER', 'default', '+config'])
    expect([refused, vouched]).toEqual(['unavailable', 'queued'])
  })

  test('spool: with `vouched`, accepts events although appendfsync is everysec', async () => {
    await command(lab.server, ['CONFIG', 'SET', 'appendfsync', 'everysec'])
    expect(await lab.spool({ vouched: true }).append(receivedEvent())).toBe('queued')
  })
})

describe('spool while Redis is unavailable', () => {
  afterEach(() => lab.server.signal('SIGCONT'))

  test('spool: while Redis hangs, refuses waiting events within one deadline, and afterwards accepts events again', async () => {
    const spool = lab.spool()
    expect(await spool.append(receivedEvent())).toBe('queued')
    lab.server.signal('SIGSTOP')
    const startedMs = performance.now()
    const first = spool.append(receivedEvent())
    const behind = Promise.resolve().then(() => spool.append(receivedEvent()))
    expect(await Promise.all([first, behind])).toEqual(['unavailable', 'unavailable'])
    expect(performance.now() - startedMs).toBeLessThan(2_500)
    expect(lab.refusals).toEqual(['away', 'away'])
    lab.server.signal('SIGCONT')
    await until('an event that is taken', async () =>
      (await spool.append(receivedEvent())) === 'queued' ? true : undefined,
    )
  })

  test('spool: continues to work after Redis has lost its data', async () => {
    const spool = lab.spool()
    await spool.append(receivedEvent())
    await lab.reset()
    expect(await spool.stats()).toEqual({
      entries: 0,
      bytes: 0,
      oldestAgeMs: 0,
      deadEntries: 0,
      deadBytes: 0,
    })
    const event = receivedEvent()
    expect(await spool.append(event)).toBe('queued')
    expect(await spool.stats()).toMatchObject({ entries: 1, bytes: bytesOf(event) })
  })
})
