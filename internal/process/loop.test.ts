import { describe, expect, test } from 'bun:test'
import { createHealth } from '#internal/telemetry/index.ts'
import { type LoopOptions, type Sleep, superviseLoop } from './loop.ts'

/** Pauses that last until the test ends them; `asked` holds their lengths. */
function heldSleep() {
  const asked: number[] = []
  let release: () => void = () => undefined
  const sleep: Sleep = (ms, signal) => {
    asked.push(ms)
    return new Promise((resolve) => {
      release = resolve
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }
  return { asked, sleep, release: () => release() }
}

async function until(condition: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + 2000
  while (!condition()) {
    if (performance.now() > deadlineMs) throw new Error('the condition did not come true within 2 s')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function start(options: Partial<LoopOptions> = {}) {
  const held = heldSleep()
  const errors: [unknown, number][] = []
  const loop = superviseLoop({
    name: 'test',
    intervalMs: 1000,
    turnMsMax: 60_000,
    jitter: 0,
    random: () => 0,
    sleep: held.sleep,
    runOnce: async () => undefined,
    onError: (error, failures) => errors.push([error, failures]),
    ...options,
  })
  return { loop, held, errors }
}

test('loop: waits for the interval between two runs', async () => {
  let turns = 0
  const { loop, held } = start({
    runOnce: async () => {
      turns += 1
    },
  })
  for (const expected of [1, 2, 3]) {
    await until(() => held.asked.length === expected)
    expect(turns).toBe(expected)
    held.release()
  }
  await loop.stop()
  expect(held.asked.slice(0, 3)).toEqual([1000, 1000, 1000])
})

test('loop: varies the interval by its jitter', async () => {
  const low = start({ jitter: 0.2, random: () => 0 })
  const high = start({ jitter: 0.2, random: () => 1 })
  await until(() => low.held.asked.length > 0 && high.held.asked.length > 0)
  expect([low.held.asked[0], high.held.asked[0]]).toEqual([800, 1200])
  await Promise.all([low.loop.stop(), high.loop.stop()])
})

test('loop: reports failures, backs off, and resets the backoff after a successful run', async () => {
  let fails = true
  const { loop, held, errors } = start({
    backoff: { firstMs: 100, maxMs: 300 },
    runOnce: async () => {
      if (fails) throw new Error('no')
    },
  })
  for (let turn = 1; turn <= 4; turn += 1) {
    await until(() => held.asked.length === turn)
    if (turn === 3) fails = false
    held.release()
  }
  fails = true
  await until(() => held.asked.length === 5)
  // The test's random number is 0, so each backoff is half of its maximum (100, 200 and 300 ms). The success waits for the interval of 1 s.
  expect(held.asked).toEqual([50, 100, 150, 1000, 50])
  expect(errors.map(([, failures]) => failures)).toEqual([1, 2, 3, 1])
  await loop.stop()
})

test.each([
  ['fails liveness if failuresStopHeartbeat is set', true, false],
  ['does not fail liveness by default', undefined, true],
])('loop: a loop whose runs all fail %s', async (_case, failuresStopHeartbeat, isAlive) => {
  let nowMs = 0
  const health = createHealth({ clock: { now: () => nowMs } })
  const { loop, held } = start({
    health,
    ...(failuresStopHeartbeat && { failuresStopHeartbeat }),
    runOnce: () => Promise.reject(new Error('no')),
  })
  await until(() => held.asked.length === 1)
  nowMs = 1_000_000
  held.release()
  await until(() => held.asked.length === 2)
  expect(health.liveness().ok).toBe(isAlive)
  await loop.stop()
})

test('loop: handles a synchronous throw like a rejection', async () => {
  const { loop, held, errors } = start({
    runOnce: () => {
      throw new Error('at once')
    },
  })
  await until(() => held.asked.length === 1)
  expect(errors).toHaveLength(1)
  await loop.stop()
})

describe('wake', () => {
  test('loop: `wake` ends the pause', async () => {
    const { loop, held } = start()
    await until(() => held.asked.length === 1)
    loop.wake()
    await until(() => held.asked.length === 2)
    await loop.stop()
  })

  test('loop: `wake` during a run starts exactly one more run immediately afterwards', async () => {
    let turns = 0
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    const { loop, held } = start({
      runOnce: async () => {
        turns += 1
        if (turns === 1) await gate
      },
    })
    await until(() => turns === 1)
    loop.wake()
    loop.wake()
    open()
    await until(() => held.asked.length === 1)
    expect(turns).toBe(2)
    await loop.stop()
  })

  test('loop: `wake` does not shorten the backoff after a failure', async () => {
    const { loop, held, errors } = start({ runOnce: () => Promise.reject(new Error('no')) })
    await until(() => held.asked.length === 1)
    for (let i = 0; i < 10; i += 1) loop.wake()
    await new Promise((resolve) => setImmediate(resolve))
    expect(errors).toHaveLength(1)
    held.release()
    await until(() => errors.length === 2)
    await loop.stop()
  })
})

describe('runOnce', () => {
  test('loop: `runOnce` starts a run and throws its error only to the caller', async () => {
    let turns = 0
    const { loop, held, errors } = start({
      runOnce: async () => {
        turns += 1
        if (turns === 2) throw new Error('second')
      },
    })
    await until(() => held.asked.length === 1)
    await expect(loop.runOnce()).rejects.toThrow('second')
    await loop.runOnce()
    expect(turns).toBe(3)
    expect(errors).toEqual([])
    await loop.stop()
  })

  test('loop: `runOnce` never overlaps another run', async () => {
    let running = 0
    let most = 0
    const { loop, held } = start({
      runOnce: async () => {
        running += 1
        most = Math.max(most, running)
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
      },
    })
    await Promise.all([loop.runOnce(), loop.runOnce(), loop.runOnce()])
    await until(() => held.asked.length === 1)
    expect(most).toBe(1)
    await loop.stop()
  })
})

describe('stop', () => {
  test('loop: `stop` aborts the current run, waits for it, and starts no other run', async () => {
    let turns = 0
    let finished = false
    const { loop } = start({
      runOnce: (signal) => {
        turns += 1
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            setImmediate(() => {
              finished = true
              resolve()
            })
          })
        })
      },
    })
    await until(() => turns === 1)
    loop.wake()
    await Promise.all([loop.stop(), loop.stop()])
    expect([turns, finished]).toEqual([1, true])
  })

  test('loop: `stop` does not report the aborted run as failed', async () => {
    const { loop, errors } = start({
      runOnce: (signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')))
        }),
    })
    await new Promise((resolve) => setImmediate(resolve))
    await loop.stop()
    expect(errors).toEqual([])
  })

  test('loop: `stop` before the first run prevents that run', async () => {
    let turns = 0
    const { loop } = start({
      runOnce: async () => {
        turns += 1
      },
    })
    await loop.stop()
    expect(turns).toBe(0)
    await expect(loop.runOnce()).rejects.toThrow('stopped')
  })
})

test('loop: aborts the signal of a run that exceeds its time limit', async () => {
  const { loop, errors } = start({
    turnMsMax: 10,
    runOnce: (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('too long')))
      }),
  })
  await until(() => errors.length === 1)
  await loop.stop()
})

test('loop: a stuck run fails liveness, but a failing run does not', async () => {
  let nowMs = 0
  const health = createHealth({ clock: { now: () => nowMs } })
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const stuck = start({ name: 'stuck', turnMsMax: 1000, health, runOnce: () => gate })
  const failing = start({
    name: 'failing',
    turnMsMax: 1000,
    health,
    runOnce: () => Promise.reject(new Error('no')),
  })
  nowMs = 20_000
  for (let turn = 1; turn <= 3; turn += 1) {
    await until(() => failing.held.asked.length === turn)
    failing.held.release()
  }
  expect(health.liveness().ok).toBe(true)
  nowMs = 30_000
  await until(() => failing.held.asked.length === 4)
  expect(health.liveness().checks).toMatchObject([
    { name: 'stuck', ok: false },
    { name: 'failing', ok: true },
  ])
  open()
  await Promise.all([stuck.loop.stop(), failing.loop.stop()])
  expect(health.liveness().checks).toEqual([])
})
