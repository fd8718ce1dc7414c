import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createHealth, createMetrics } from '#internal/telemetry/index.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import { createKubeMetrics } from './metrics.ts'
import { DueTimes, type WorkOutcome, WorkQueue, type WorkQueueOptions } from './work-queue.ts'

const done: WorkOutcome = { kind: 'done' }

/** A queue whose turns the test ends one by one; `begun` lists the keys in the order of their turns. */
function start(options: Partial<WorkQueueOptions> = {}) {
  const timing = createMovedClock()
  const begun: string[] = []
  const errors: [string, number][] = []
  const open = new Map<string, { end(outcome?: WorkOutcome): void; fail(): void; signal: AbortSignal }>()
  const queue = new WorkQueue({
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

test('work queue: keys run in order of arrival, at most `concurrency` of them concurrently', async () => {
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

test('work queue: adding a key that is already waiting changes nothing', async () => {
  const { queue, timing, begun, turn } = start({ concurrency: 1 })
  for (const key of ['a', 'b', 'b', 'b']) queue.add(key)
  turn('a').end()
  await timing.settle()
  turn('b').end()
  await queue.idle()
  expect(begun).toEqual(['a', 'b'])
  await queue.stop()
})

test('work queue: a key that is added during its run gets one more run afterwards', async () => {
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

test('work queue: each failed key is retried with its own backoff, which a success resets', async () => {
  const { queue, timing, begun, errors, turn } = start({ backoff: { firstMs: 100, maxMs: 350 } })
  queue.add('a')
  // The clock's random number is 0, so each wait is half of the backoff: 100, 200, then the maximum of 350.
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

test('work queue: adding a failed key runs it immediately and cancels its retry', async () => {
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

test('work queue: a run can schedule a later run, and the next run replaces that schedule', async () => {
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

test('work queue: a run that exceeds workMsMax is aborted, and its key does not run again until that run ends', async () => {
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

test('work queue: a hanging run fails liveness, and a slow run within workMsMax does not', async () => {
  const timing = createMovedClock()
  const health = createHealth({ clock: timing })
  const { promise, resolve } = Promise.withResolvers<WorkOutcome>()
  const queue = new WorkQueue({
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

test('work queue: stop aborts running keys, waits for them, starts no further run and reports no failure', async () => {
  const { queue, timing, begun, errors, turn } = start({ concurrency: 1 })
  queue.add('a')
  queue.add('b')
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

test('work queue: adding a key beyond keysMax throws, unless the key is already queued', async () => {
  const { queue, turn } = start({ concurrency: 1, keysMax: 2 })
  for (const key of ['a', 'b', 'c']) queue.add(key)
  expect(() => queue.add('d')).toThrow(RangeError)
  for (const key of ['a', 'b', 'c']) queue.add(key)
  turn('a').end()
  await queue.stop()
})

test('work queue: reports the metrics of controller-runtime', async () => {
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

test('due times: keys are returned when they are due, earliest first', () => {
  const due = new DueTimes()
  due.set('late', 30)
  due.set('soon', 10)
  due.set('then', 20)
  expect(due.first()).toBe(10)
  expect(due.takeDue(9)).toBeUndefined()
  expect([due.takeDue(20), due.takeDue(20), due.takeDue(20)]).toEqual(['soon', 'then', undefined])
  expect(due.size).toBe(1)
})

test('due times: a key that is set twice is due once, at the time set last', () => {
  const due = new DueTimes()
  due.set('a', 10)
  due.set('b', 20)
  due.set('a', 30)
  expect([due.takeDue(99), due.takeDue(99), due.takeDue(99)]).toEqual(['b', 'a', undefined])
})

test('due times: random operations give the same results as a sorted list', () => {
  const step = fc.record({
    kind: fc.constantFrom('set', 'delete', 'take'),
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
    at: fc.nat(50),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const due = new DueTimes()
      const model = new Map<string, number>()
      for (const { kind, key, at } of steps) {
        if (kind === 'set') {
          due.set(key, at)
          model.set(key, at)
        } else if (kind === 'delete') {
          due.delete(key)
          model.delete(key)
        } else {
          const taken = due.takeDue(at)
          const first = Math.min(...model.values())
          if (taken === undefined) expect(first).toBeGreaterThan(at)
          else expect(model.get(taken)).toBe(first)
          if (taken !== undefined) model.delete(taken)
        }
        expect(due.size).toBe(model.size)
        expect(due.first() ?? Infinity).toBe(Math.min(...model.values()))
      }
    }),
  )
})
