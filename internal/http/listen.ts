import { isIP } from 'node:net'
import { type AnyElysia, Elysia } from 'elysia'
import type { Health, HealthSnapshot, Metrics } from '#internal/telemetry/index.ts'

/** Listening server. */
export interface Listening {
  readonly port: number
  /** Base URL for clients on this machine, without a final slash. The host is loopback if the server listens on all interfaces. */
  readonly url: string
  /** Refuses new connections and waits for requests in flight. With `true`, aborts them. Safe to repeat. */
  stop(now?: boolean): Promise<void>
}

/**
 * Listens on a port; port 0 selects a free one.
 * @param bindAddress IP address; default: all interfaces, IPv4 and IPv6
 * @throws if the port is in use or no interface has the address
 */
export function listen(app: AnyElysia, port: number, bindAddress?: string): Listening {
  try {
    app.listen({ port, ...(bindAddress !== undefined && { hostname: bindAddress }) })
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`cannot listen on ${bindAddress ?? 'all interfaces'}, port ${port}: ${why}`, { cause })
  }
  const { server } = app
  if (!server) throw new Error(`the server did not start listening on port ${port}`)
  const opened = server.port ?? port
  return {
    port: opened,
    url: `http://${urlHost(bindAddress)}:${opened}`,
    stop: (now = false) => server.stop(now),
  }
}

/** Returns the URL host of a server for clients on this machine: loopback for all interfaces, and IPv6 addresses in brackets. */
export function urlHost(bindAddress: string | undefined): string {
  if (bindAddress === undefined || bindAddress === '0.0.0.0') return '127.0.0.1'
  if (bindAddress === '::') return '[::1]'
  return isIP(bindAddress) === 6 ? `[${bindAddress}]` : bindAddress
}

/** Data that the ops port serves. */
export interface OpsOptions {
  readonly health: Pick<Health, 'liveness' | 'readiness'>
  readonly metrics: Pick<Metrics, 'render'>
}

/** Creates the app of the ops port: `/livez`, `/readyz`, `/metrics`. Never served on the public port. */
export function createOpsServer(options: OpsOptions) {
  return (
    new Elysia({ serve: { idleTimeout: 30, reusePort: false } })
      // Applies only to routes registered later. Elysia's default handler would send the message of the error to the caller.
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
