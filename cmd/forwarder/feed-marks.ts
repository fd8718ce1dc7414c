import { openLoop } from '#cmd/serving/loop.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { markFeed } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'

const intervalMs = 60_000
const turnMsMax = 5_000

/**
 * Records the number of the next transaction at the start and every minute, until the scope closes, so that subscriptions can begin at a
 * time. Any number of processes can call this function.
 */
export async function startFeedMarks(host: Host, pool: Pool): Promise<void> {
  const { log } = host
  await openLoop(host, {
    name: 'feed marks',
    intervalMs,
    turnMsMax,
    runOnce: async () => {
      if ((await markFeed(pool)) === 'went_back')
        log.error(
          {},
          'transaction ids went backwards, as after the restore of a dump: see docs/operate/restore.md',
        )
    },
    onError: (cause, failures) => log.warn({ failures, cause }, 'feed marks could not be written; retrying'),
  })
}
