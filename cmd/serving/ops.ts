import type { Config } from '#internal/config/index.ts'
import { createOpsServer, listen } from '#internal/http/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'
import { openLoop } from './loop.ts'
import type { DatabaseSettings, RedisSettings } from './stores.ts'
import type { Host } from './telemetry.ts'

/** Default: all interfaces. */
export type BindConfig = Partial<Pick<Config<'api'>, 'bindAddress' | 'opsBindAddress'>>

export type CommonConfig = DatabaseSettings &
  RedisSettings &
  BindConfig & {
    readonly opsPort: number
    readonly keyRing: KeyRing
    /** Default: false. */
    readonly keyRingReplacesLost?: boolean
  }

export interface OpsPortOptions extends BindConfig {
  readonly opsPort: number
  /** Name of the readiness check that fails until `markStarted`. */
  readonly check: string
  readonly reason: string
}

export interface OpsPort {
  /** Actual port, also when the configured port is 0. */
  readonly port: number
  /** Base URL at which this process can call its own ops port, without a trailing slash. */
  readonly ownUrl: string
  /** Makes the start-up check pass. Idempotent. */
  markStarted(): void
}

/**
 * Opens the ops port until the scope closes. Call this function before adding other readiness checks. The start-up check is then the first
 * one, so that the port never reports "ready" without any check.
 */
export async function openOpsPort(
  { health, metrics, scope }: Pick<Host, 'health' | 'metrics' | 'scope'>,
  { opsPort, bindAddress, opsBindAddress = bindAddress, check, reason }: OpsPortOptions,
): Promise<OpsPort> {
  let started = false
  health.addCheck(check, () => (started ? { ok: true } : { ok: false, reason }))
  const server = await scope.open({
    name: 'ops port',
    open: () => listen(createOpsServer({ health, metrics }), opsPort, opsBindAddress),
    close: (opened) => opened.stop(true),
  })
  return {
    port: server.port,
    ownUrl: server.url,
    markStarted() {
      started = true
    },
  }
}

const everyMs = 5_000
const answerMsMax = 2_000
/** Time limit in ms of one self-check. With an interval of 5 s, liveness fails after 24 s without a response. */
const turnMsMax = 3_000

/**
 * Calls this process's own ops port through the runtime's connection pool every 5 s. If the pool is exhausted, all outgoing calls hang and
 * only a restart helps, so liveness fails. Failures of other servers do not affect this check.
 */
export async function watchOutgoingCalls(host: Host, opsUrl: string): Promise<void> {
  await openLoop(host, {
    name: 'outgoing calls',
    intervalMs: everyMs,
    turnMsMax,
    backoff: { firstMs: 500, maxMs: everyMs },
    failuresStopHeartbeat: true,
    runOnce: (signal) => callSelf(opsUrl, AbortSignal.any([signal, AbortSignal.timeout(answerMsMax)])),
    onError: (error, failures) =>
      host.log.error(
        { failures, cause: error instanceof Error ? error.name : 'unknown' },
        'outgoing-call self-check failed',
      ),
  })
}

/** Calls this process's own ops port. Any HTTP status counts as success. @throws if there is no response */
export async function callSelf(opsUrl: string, signal: AbortSignal): Promise<void> {
  // Ignores the proxy environment variables. Bun's types do not document this option; verified with Bun 1.4.5.
  const options = { signal, proxy: false } as unknown as BunFetchRequestInit
  const answer = await fetch(`${opsUrl}/livez`, options)
  await answer.arrayBuffer()
}
