import { describe, expect, test } from 'bun:test'
import { createHealth } from './health.ts'

function movable(startMs = 1000) {
  let nowMs = startMs
  return {
    now: () => nowMs,
    move: (ms: number) => {
      nowMs += ms
    },
  }
}

describe('readiness', () => {
  test('readiness: fails if any check fails, and lists each check with its reason', async () => {
    const health = createHealth()
    health.addCheck('postgres', () => ({ ok: true }))
    health.addCheck('redis', async () => ({ ok: false, reason: 'maxmemory-policy is allkeys-lru' }))
    expect(await health.readiness()).toEqual({
      ok: false,
      checks: [
        { name: 'postgres', ok: true, reason: null },
        { name: 'redis', ok: false, reason: 'maxmemory-policy is allkeys-lru' },
      ],
    })
  })

  test('readiness: a check that hangs fails at its time limit, and its signal is aborted', async () => {
    const health = createHealth({ checkMsMax: 20 })
    let aborted = false
    health.addCheck('hung', (signal) => {
      signal.addEventListener('abort', () => {
        aborted = true
      })
      return new Promise(() => undefined)
    })
    expect((await health.readiness()).checks[0]?.reason).toBe('the check did not finish within 20 ms')
    expect(aborted).toBe(true)
  })

  test.each([
    [
      'throws',
      () => {
        throw new TypeError('postgres://u:secret@h')
      },
    ],
    ['rejects', () => Promise.reject(new TypeError('postgres://u:secret@h'))],
  ])('readiness: a check that %s fails without exposing the error message', async (_case, check) => {
    const health = createHealth()
    health.addCheck('broken', check)
    expect((await health.readiness()).checks).toEqual([
      { name: 'broken', ok: false, reason: 'failed: TypeError' },
    ])
  })

  test('readiness: runs the checks at most once per second', async () => {
    const clock = movable()
    const health = createHealth({ clock })
    let runs = 0
    health.addCheck('counted', () => {
      runs += 1
      return { ok: true }
    })
    await Promise.all([health.readiness(), health.readiness()])
    clock.move(999)
    await health.readiness()
    expect(runs).toBe(1)
    clock.move(1)
    await health.readiness()
    expect(runs).toBe(2)
  })

  test('readiness: fails immediately after startDraining', async () => {
    const health = createHealth()
    expect((await health.readiness()).ok).toBe(true)
    health.startDraining()
    expect(await health.readiness()).toMatchObject({ ok: false, checks: [{ name: 'draining' }] })
  })
})

describe('liveness', () => {
  test('liveness: passes while every loop sends heartbeats, and fails as soon as one loop is silent', () => {
    const clock = movable()
    const health = createHealth({ clock })
    const flush = health.addHeartbeat('flush', 5000)
    health.addHeartbeat('poll', 30_000)
    clock.move(5000)
    expect(health.liveness().ok).toBe(true)
    clock.move(1)
    expect(health.liveness()).toEqual({
      ok: false,
      checks: [
        { name: 'flush', ok: false, reason: 'the loop has sent no heartbeat for 5 s' },
        { name: 'poll', ok: true, reason: null },
      ],
    })
    flush.beat()
    expect(health.liveness().ok).toBe(true)
  })

  test('liveness: ignores a loop that ended normally', () => {
    const clock = movable()
    const health = createHealth({ clock })
    health.addHeartbeat('once', 10).stop()
    clock.move(1000)
    expect(health.liveness()).toEqual({ ok: true, checks: [] })
  })

  test('liveness: stopping a heartbeat twice does not stop a newer heartbeat with the same name', () => {
    const clock = movable()
    const health = createHealth({ clock })
    const first = health.addHeartbeat('loop', 10)
    first.stop()
    health.addHeartbeat('loop', 10)
    first.stop()
    clock.move(11)
    expect(health.liveness().ok).toBe(false)
  })

  test('liveness: passes while the process drains', () => {
    const health = createHealth()
    health.startDraining()
    expect(health.liveness().ok).toBe(true)
  })
})

test('health: rejects duplicate names of checks and heartbeats', () => {
  const health = createHealth()
  health.addCheck('a', () => ({ ok: true }))
  health.addHeartbeat('a', 1)
  expect(() => health.addCheck('a', () => ({ ok: true }))).toThrow()
  expect(() => health.addHeartbeat('a', 1)).toThrow()
})
