import { Elysia } from 'elysia'
import type { Health, HealthSnapshot, Metrics } from '#internal/telemetry/index.ts'

/** What the ops port tells. */
export interface OpsOptions {
  readonly health: Pick<Health, 'liveness' | 'readiness'>
  readonly metrics: Pick<Metrics, 'render'>
}

/** Builds the app of the ops port: `/livez`, `/readyz`, `/metrics`. Never served on the public port. */
export function createOpsServer(options: OpsOptions) {
  return (
    new Elysia({ serve: { idleTimeout: 30, reusePort: false } })
      // Before the routes, since it holds for those that come after it only: Elysia's own would send the error's message.
      .onError(({ code }) =>
        code === 'NOT_FOUND'
          ? new Response('Not found: /livez, /readyz, /metrics\n', { status: 404 })
          : new Response('Internal error\n', { status: 500 }),
      )
      .get('/livez', () => answerHealth(options.health.liveness()))
      .get('/readyz', async () => answerHealth(await options.health.readiness()))
      .get('/metrics', async () => {
        const { contentType, text } = await options.metrics.render()
        return new Response(text, { headers: { 'Content-Type': contentType } })
      })
  )
}

function answerHealth(health: HealthSnapshot): Response {
  return Response.json(health, { status: health.ok ? 200 : 503, headers: { 'Cache-Control': 'no-store' } })
}
