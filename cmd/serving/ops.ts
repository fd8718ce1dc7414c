import type { Config } from '#internal/config/index.ts'
import { createOpsServer, listen } from '#internal/http/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** The addresses that a process listens on; absent: all interfaces. */
export type BindConfig = Partial<Pick<Config<'api'>, 'bindAddress' | 'opsBindAddress'>>

/** Where the ops port is, and what it says of a process that is still starting. */
export interface OpsPortOptions extends BindConfig {
  readonly opsPort: number
  /** The check that fails until the process has started, and its reason. */
  readonly check: string
  readonly reason: string
}

/** An open ops port. */
export interface OpsPort {
  /** The port that is listened on, also where the configured one was 0. */
  readonly port: number
  /** Base URL by which this process can call its own ops port, without / at the end. */
  readonly ownUrl: string
  /** Ends the failing check: every part is open. Repeating it is harmless. */
  markStarted(): void
}

/**
 * Opens the ops port for the scope's life. To be called before any other check is added: its own is the first, so that the port
 * never answers "ready" for want of any.
 */
export async function openOpsPort(
  { opsPort, bindAddress, opsBindAddress = bindAddress, check, reason }: OpsPortOptions,
  { health, metrics }: Pick<ProcessTelemetry, 'health' | 'metrics'>,
  scope: Scope,
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
