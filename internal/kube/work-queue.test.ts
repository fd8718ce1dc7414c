import { expect, test } from 'bun:test'
import { createHealth, createMetrics } from '#internal/telemetry/index.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import { createKubeMetrics } from './metrics.ts'
import { startWorkQueue, type WorkOutcome, type WorkQueueOptions } from './work-queue.ts'

const done: WorkOutcome = { kind: 'done' }

/** A queue whose turns the test ends one by one; `begun` lists the keys in the order of their turns. */
function start(options: Partial<WorkQueueOptions> = {}) {
  const timing = createMovedClock()
  const begun: string[] = []
  const errors: [string, number][] = []
  const open = new Map<string, { end(outcome?: WorkOutcome): void; fail(): void; signal: AbortSignal }>()
  const queue = startWorkQueue({
    name: 'test',
    concurrency: 2,
    timing,
    onError: (key, _error, failures) => errors.push([key, failures]),
    work: (key, signal) => {
      if (open.has(key)) throw new Error(`${key} is in two turns at once`)
      begun.push(key)
      const { promise, resolve, reject } = Promise.withResolvers<WorkOutcome>()
      const leave = () => open.delete(key)
      open.set(key, {
        signal,
        end: (outcome = done) => {
          leave()
          resolve(outcome)
        },
        fail: () => {
          leave()
          reject(new Error('no'))
        },
      })
      return promise
    },
    ...options,
  })
  const turn = (key: string) => {
    const found = open.get(key)
    if (!found) throw new Error(`${key} is in no turn`)
    return found
  }
  return { queue, timing, begun, errors, turn }
}

test('keys are worked on in the order they came, so many at once as there are workers', async () => {
  const { queue, timing, begun, turn } = start()
  for (const key of ['a', 'b', 'c', 'd']) queue.add(key)
  expect(begun).toEqual(['a', 'b'])
  expect(queue.stats()).toMatchObject({ depth: 2, running: 2 })
  turn('b').end()
  await timing.settle()
  expect(begun).toEqual(['a', 'b', 'c'])
  for (const key of ['a', 'c']) turn(key).end()
  await timing.settle()
  turn('d').end()
  await queue.idle()
  expect(queue.stats()).toEqual({ depth: 0, running: 0, unfinishedMs: 0, longestMs: 0 })
  await queue.stop()
})

test('a key that waits is not added twice', async () => {
  const { queue, timing, begun, turn } = start({ concurrency: 1 })
  for (const key of ['a', 'b', 'b', 'b']) queue.add(key)
  turn('a').end()
  await timing.settle()
  turn('b').end()
  await queue.idle()
  expect(begun).toEqual(['a', 'b'])
  await queue.stop()
})

test('a key that is added during its turn has one more turn after it, never one beside it', async () => {
  const { queue, timing, begun, turn } = start()
  queue.add('a')
  for (let i = 0; i < 3; i += 1) queue.add('a')
  expect(begun).toEqual(['a'])
  turn('a').end()
  await timing.settle()
  expect(begun).toEqual(['a', 'a'])
  turn('a').end()
  await queue.idle()
  expect(begun).toEqual(['a', 'a'])
  await queue.stop()
})

test('a failed key comes back later and later, each key by itself; a success is a new start', async () => {
  const { queue, timing, begun, errors, turn } = start({ backoff: { firstMs: 100, maxMs: 350 } })
  queue.add('a')
  // The clock's chance is 0: the lower half of 100, 200, 350.
  for (const [failures, waitMs] of [50, 100, 175, 175].entries()) {
    turn('a').fail()
    await timing.advance(waitMs - 1)
    expect(begun).toHaveLength(failures + 1)
    await timing.advance(1)
    expect(begun).toHaveLength(failures + 2)
  }
  queue.add('b')
  turn('b').fail()
  turn('a').end()
  await timing.settle()
  queue.add('a')
  await timing.settle()
  turn('a').fail()
  await timing.settle()
  expect(errors.map(([, failures]) => failures)).toEqual([1, 2, 3, 4, 1, 1])
  await queue.stop()
})

test('a failed key that is added does not wait for its time, and has no second turn then', async () => {
  const { queue, timing, begun, turn } = start({ backoff: { firstMs: 1000, maxMs: 1000 } })
  queue.add('a')
  turn('a').fail()
  await timing.settle()
  queue.add('a')
  turn('a').end()
  await timing.advance(5000)
  expect(begun).toEqual(['a', 'a'])
  await queue.stop()
})

test('a turn may ask for another after a while; the next turn decides anew', async () => {
  const { queue, timing, begun, turn } = start()
  queue.add('a')
  turn('a').end({ kind: 'again', afterMs: 60_000 })
  await timing.advance(59_999)
  expect(begun).toHaveLength(1)
  await timing.advance(1)
  expect(begun).toHaveLength(2)
  turn('a').end({ kind: 'again', afterMs: 60_000 })
  await timing.settle()
  queue.add('a')
  turn('a').end()
  await timing.advance(120_000)
  expect(begun).toHaveLength(3)
  await queue.stop()
})

test('of several times the soonest counts, and it stands although the key is worked on before', async () => {
  const { queue, timing, begun, turn } = start()
  queue.addAfter('a', 2000)
  queue.addAfter('a', 1000)
  queue.addAfter('a', 3000)
  queue.add('a')
  turn('a').end()
  await timing.advance(999)
  expect(begun).toHaveLength(1)
  await timing.advance(1)
  expect(begun).toHaveLength(2)
  turn('a').end()
  await timing.advance(10_000)
  expect(begun).toHaveLength(2)
  await queue.stop()
})

test('a turn that takes too long is told so, and no other begins meanwhile', async () => {
  const { queue, timing, begun, turn } = start({ workMsMax: 1000 })
  queue.add('a')
  const { signal } = turn('a')
  queue.add('a')
  await timing.advance(999)
  expect(signal.aborted).toBe(false)
  await timing.advance(1)
  expect(signal.aborted).toBe(true)
  expect(begun).toHaveLength(1)
  turn('a').end()
  await timing.settle()
  expect(begun).toHaveLength(2)
  turn('a').end()
  await queue.stop()
})

test('a turn that hangs makes the process count as dead; one that is slow within its bound does not', async () => {
  const timing = createMovedClock()
  const health = createHealth({ clock: timing })
  const { promise, resolve } = Promise.withResolvers<WorkOutcome>()
  const queue = startWorkQueue({
    name: 'hanging',
    concurrency: 1,
    workMsMax: 60_000,
    health,
    timing,
    work: () => promise,
    onError: () => undefined,
  })
  queue.add('a')
  await timing.advance(70_000)
  expect(health.liveness().ok).toBe(true)
  await timing.advance(30_000)
  expect(health.liveness().checks).toMatchObject([{ name: 'queue hanging', ok: false }])
  resolve(done)
  await timing.advance(10_000)
  expect(health.liveness().ok).toBe(true)
  await queue.stop()
  expect(health.liveness().checks).toEqual([])
})

test('stop tells turns to end, waits for them, begins no other and hears of no failure', async () => {
  const { queue, timing, begun, errors, turn } = start({ concurrency: 1 })
  queue.add('a')
  queue.add('b')
  queue.addAfter('c', 10)
  let stopped = false
  const stopping = queue.stop().then(() => {
    stopped = true
  })
  await timing.advance(100)
  expect(turn('a').signal.aborted).toBe(true)
  expect(stopped).toBe(false)
  queue.add('d')
  turn('a').fail()
  await Promise.all([stopping, queue.stop(), queue.idle()])
  expect(begun).toEqual(['a'])
  expect(errors).toEqual([])
})

test('more keys than there is room for are refused; known ones are not', async () => {
  const { queue, turn } = start({ concurrency: 1, keysMax: 2 })
  for (const key of ['a', 'b', 'c']) queue.add(key)
  expect(() => queue.add('d')).toThrow(RangeError)
  for (const key of ['a', 'b', 'c']) queue.add(key)
  turn('a').end()
  await queue.stop()
})

test('what it does is counted under the names of controller-runtime', async () => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const kube = createKubeMetrics(metrics)
  const { queue, timing, turn } = start({ concurrency: 1, hooks: kube.forQueue('tenant', 1) })
  kube.watchQueue('tenant', queue)
  queue.add('a')
  queue.add('b')
  queue.add('b')
  await timing.advance(2000)
  const { text } = await metrics.render()
  expect(text).toContain('workqueue_depth{name="tenant"} 1')
  expect(text).toContain('workqueue_adds_total{name="tenant"} 2')
  expect(text).toContain('workqueue_unfinished_work_seconds{name="tenant"} 2')
  expect(text).toContain('workqueue_longest_running_processor_seconds{name="tenant"} 2')
  expect(text).toContain('controller_runtime_active_workers{controller="tenant"} 1')
  turn('a').fail()
  await timing.settle()
  turn('b').end({ kind: 'again', afterMs: 1000 })
  await timing.settle()
  const later = (await metrics.render()).text
  expect(later).toContain('workqueue_retries_total{name="tenant"} 1')
  expect(later).toContain('workqueue_queue_duration_seconds_sum{name="tenant"} 2')
  expect(later).toContain('workqueue_work_duration_seconds_count{name="tenant"} 2')
  expect(later).toContain('controller_runtime_reconcile_total{controller="tenant",result="error"} 1')
  expect(later).toContain('controller_runtime_reconcile_total{controller="tenant",result="requeue_after"} 1')
  expect(later).toContain('controller_runtime_reconcile_errors_total{controller="tenant"} 1')
  metrics.close()
  await queue.stop()
})
