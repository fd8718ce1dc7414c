import { createOpsServer, listen } from '#internal/http/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** Where the ops port is, and what it says of a process that is still starting. */
export interface OpsPortOptions {
  readonly opsPort: number
  /** The interface to listen on; default all of them. */
  readonly hostname?: string | undefined
  /** The check that fails until the process has started, and its reason. */
  readonly check: string
  readonly reason: string
}

/** An open ops port. */
export interface OpsPort {
  /** The port that is listened on, also where the configured one was 0. */
  readonly port: number
  /** Ends the failing check: every part is open. Repeating it is harmless. */
  markStarted(): void
}

/**
 * Opens the ops port for the scope's life. To be called before any other check is added: its own is the first, so that the port
 * never answers "ready" for want of any.
 */
export async function openOpsPort(
  { opsPort, hostname, check, reason }: OpsPortOptions,
  { health, metrics }: Pick<ProcessTelemetry, 'health' | 'metrics'>,
  scope: Scope,
): Promise<OpsPort> {
  let started = false
  health.addCheck(check, () => (started ? { ok: true } : { ok: false, reason }))
  const server = await scope.open({
    name: 'ops port',
    open: () => listen(createOpsServer({ health, metrics }), opsPort, hostname),
    close: (opened) => opened.stop(true),
  })
  return {
    port: server.port,
    markStarted() {
      started = true
    },
  }
}
