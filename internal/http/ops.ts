import { Elysia } from 'elysia'

/** One named check with why it fails. Reasons hold no secret. */
export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly reason?: string | undefined
}

/** What the ops port tells. */
export interface OpsOptions {
  /** Whether this process works at all; a failing one is restarted. */
  live(): readonly Check[]
  /** Whether it should get calls now. */
  ready(): Promise<readonly Check[]>
  metrics(): Promise<{ readonly contentType: string; readonly text: string }>
}

/** Builds the app of the ops port: `/livez`, `/readyz`, `/metrics`. Never served on the public port. */
export function createOpsServer(options: OpsOptions) {
  return new Elysia({ serve: { idleTimeout: 30, reusePort: false } })
    .get('/livez', () => answerChecks(options.live()))
    .get('/readyz', async () => answerChecks(await options.ready()))
    .get('/metrics', async () => {
      const { contentType, text } = await options.metrics()
      return new Response(text, { headers: { 'Content-Type': contentType } })
    })
    .onError(({ code }) =>
      code === 'NOT_FOUND'
        ? new Response('Not found: /livez, /readyz, /metrics\n', { status: 404 })
        : new Response('Internal error\n', { status: 500 }),
    )
}

function answerChecks(checks: readonly Check[]): Response {
  const ok = checks.every((check) => check.ok)
  return Response.json({ ok, checks }, { status: ok ? 200 : 503, headers: { 'Cache-Control': 'no-store' } })
}
