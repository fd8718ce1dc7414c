import type { Scope } from '#internal/process/index.ts'
import { openLoop } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

const everyMs = 5_000
const answerMsMax = 2_000
/** With the pauses above and what a loop is given besides, the process counts as dead after 24 s without an answer. */
const turnMsMax = 3_000

/**
 * Watches for the scope's life that calls still leave this process, by one to its own ops port through the runtime's pool of calls.
 * When that is stuck, every other call waits without an end too, and only a restart helps: liveness fails. Other servers, the API
 * server among them, have no part in it.
 */
export async function watchOutgoingCalls(
  opsUrl: string,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  await openLoop(
    {
      name: 'outgoing calls',
      intervalMs: everyMs,
      turnMsMax,
      backoff: { firstMs: 500, maxMs: everyMs },
      failuresStopHeartbeat: true,
      runOnce: (signal) => callSelf(opsUrl, AbortSignal.any([signal, AbortSignal.timeout(answerMsMax)])),
      onError: (error, failures) =>
        telemetry.log.error(
          { failures, cause: error instanceof Error ? error.name : 'unknown' },
          'outgoing-call self-check failed',
        ),
    },
    telemetry,
    scope,
  )
}

/** Calls the own ops port. Any HTTP status counts as success. @throws without an answer */
export async function callSelf(opsUrl: string, signal: AbortSignal): Promise<void> {
  // The proxy variables of the environment would route the call elsewhere. Not in Bun's types; seen in Bun 1.4.5.
  const options = { signal, proxy: false } as unknown as BunFetchRequestInit
  const answer = await fetch(`${opsUrl}/livez`, options)
  await answer.arrayBuffer()
}
