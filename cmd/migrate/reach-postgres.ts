import { type Pool, TlsFailure } from '#internal/storage/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'

const retryMs = 1_000
/** Interval in ms between log lines while Postgres is unavailable. */
const logMs = 10_000
/** Maximum wait in ms while TLS fails or Postgres refuses the password. Only a configuration change can solve these problems. */
const lastingMsMax = 15_000
/**
 * Postgres error codes `invalid_password` and `invalid_authorization_specification`:
 * https://www.postgresql.org/docs/15/errcodes-appendix.html (2026-11)
 */
const authenticationCodes: ReadonlySet<string> = new Set(['28P01', '28000'])

/**
 * Waits until Postgres accepts statements. During a first installation Postgres can start later than this process, or its database and role
 * can be created later. Waits at most 15 s while TLS fails or the password is refused. @throws the last error after `secondsMax`
 */
export async function reachPostgres(target: Pool, secondsMax: number, log: Logger): Promise<void> {
  const startedMs = performance.now()
  const endMs = startedMs + secondsMax * 1_000
  let lastingSinceMs: number | undefined
  for (let loggedMs = Number.NEGATIVE_INFINITY; ; ) {
    try {
      await target.query('SELECT 1')
      return
    } catch (cause) {
      lastingSinceMs = isLasting(cause) ? (lastingSinceMs ?? performance.now()) : undefined
      const untilMs = Math.min(endMs, (lastingSinceMs ?? endMs) + lastingMsMax)
      if (performance.now() + retryMs > untilMs) throw cause
      if (performance.now() - loggedMs >= logMs) {
        loggedMs = performance.now()
        const waitedSeconds = Math.round((loggedMs - startedMs) / 1_000)
        log.warn({ cause, waitedSeconds, secondsMax }, 'Postgres is not usable yet; retrying')
      }
    }
    await Bun.sleep(retryMs)
  }
}

function isLasting(cause: unknown): boolean {
  if (cause instanceof TlsFailure) return true
  return cause instanceof Error && 'code' in cause && authenticationCodes.has(String(cause.code))
}
