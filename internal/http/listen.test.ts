import { afterEach, describe, expect, test } from 'bun:test'
import { createHealth, createMetrics, type Health, type Metrics } from '#internal/telemetry/index.ts'
import { createOpsServer, type Listening, listen } from './listen.ts'

const open: { server: Listening; metrics: Metrics }[] = []
afterEach(async () => {
  for (const { server, metrics } of open.splice(0)) {
    await server.stop(true)
    metrics.close()
  }
})

function start(prepare: (parts: { health: Health; metrics: Metrics }) => void = () => undefined): string {
  const nowMs = { value: 0 }
  const health = createHealth({ clock: { now: () => nowMs.value } })
  const metrics = createMetrics({ service: 'test', version: '1.2.3' })
  prepare({ health, metrics })
  // Advances the clock beyond the allowed silence of a loop and beyond the cached result.
  nowMs.value = 10_000
  const server = listen(createOpsServer({ health, metrics }), 0)
  open.push({ server, metrics })
  return `http://localhost:${server.port}`
}

describe('/readyz', () => {
  test('/readyz: returns 200 while every check passes', async () => {
    const response = await fetch(
      `${start(({ health }) => health.addCheck('store', () => ({ ok: true })))}/readyz`,
    )
    expect(response.status).toBe(200)
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await response.json()).toEqual({ ok: true, checks: [{ name: 'store', ok: true, reason: null }] })
  })

  test('/readyz: returns 503 with the reason of a failed check, but without the message of an exception', async () => {
    const url = start(({ health }) => {
      health.addCheck('schema', () => ({ ok: false, reason: 'run migrate' }))
      health.addCheck('store', () => Promise.reject(new TypeError('redis://:password@host')))
    })
    const response = await fetch(`${url}/readyz`)
    expect(response.status).toBe(503)
    expect(await response.json()).toEqual({
      ok: false,
      checks: [
        { name: 'schema', ok: false, reason: 'run migrate' },
        { name: 'store', ok: false, reason: 'failed: TypeError' },
      ],
    })
  })

  test('/readyz: returns 503 while the process drains, and /livez still returns 200', async () => {
    const url = start(({ health }) => health.startDraining())
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })
})

describe('/livez', () => {
  test('/livez: returns 503 when a loop stalls for longer than its limit', async () => {
    const url = start(({ health }) => health.addHeartbeat('poll', 9000))
    const response = await fetch(`${url}/livez`)
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ ok: false, checks: [{ name: 'poll', ok: false }] })
    const patient = start(({ health }) => health.addHeartbeat('poll', 10_000))
    expect((await fetch(`${patient}/livez`)).status).toBe(200)
  })
})

describe('/metrics', () => {
  test('/metrics: returns Prometheus text with the build info', async () => {
    const response = await fetch(`${start()}/metrics`)
    expect(response.headers.get('content-type')).toStartWith('text/plain; version=0.0.4')
    expect(await response.text()).toContain('latchkey_build_info{process="test",version="1.2.3"} 1\n')
  })

  test('/metrics: returns 500 without the cause when rendering fails', async () => {
    const url = start(({ metrics }) => {
      metrics.gauge({
        name: 'latchkey_records_things_count',
        help: 'Breaks.',
        labels: [],
        collect: () => {
          throw new Error('secret inside')
        },
      })
    })
    const response = await fetch(`${url}/metrics`)
    expect([response.status, await response.text()]).toEqual([500, 'Internal error\n'])
  })
})

test.each(['/', '/v1/record', '/v1/openapi.json', '/metrics/more', '/debug'])(
  'ops port: returns 404 for the path %s',
  async (path) => {
    const response = await fetch(`${start()}${path}`)
    expect([response.status, await response.text()]).toEqual([404, 'Not found: /livez, /readyz, /metrics\n'])
  },
)
