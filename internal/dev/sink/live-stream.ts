import type { DeliveryLog } from './delivery-log.ts'
import { textOf } from './html.ts'
import { rowsOf } from './page.ts'

/** What a live stream is made of. */
export interface LiveStreamOptions {
  readonly log: DeliveryLog
  /** Tells this start of the sink from others. */
  readonly run: string
  /** The position after which deliveries are sent, as `positionOf` writes it; a foreign one is answered with `restarted`. */
  readonly after: string
  /** Ends the stream. */
  readonly signal: AbortSignal
}

/** So often something is sent, so that either side finds out when the other is gone. */
const heartbeatMs = 15_000

/** Where in the deliveries of one run a reader is. */
export function positionOf(run: string, number: number): string {
  return `${run}-${number}`
}

/**
 * Deliveries as they arrive, as server-sent events whose data is markup in JSON. A slow reader is sent the next batch when it has
 * taken the one before, and of deliveries no longer kept it gets none, so that it holds nothing here.
 */
export function liveStream({ log, run, after, signal }: LiveStreamOptions): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const gone = new AbortController()
  const ended = AbortSignal.any([signal, gone.signal])
  let number = numberIn(after, run)
  return new ReadableStream<Uint8Array>({
    start(controller) {
      // At once, since a browser counts the stream as open from the first byte on.
      controller.enqueue(encoder.encode(number === undefined ? 'event: restarted\ndata: 1\n\n' : ':\n\n'))
      if (number === undefined) controller.close()
    },
    async pull(controller) {
      const fresh = await log.waitAfter(number ?? 0, heartbeatMs, ended)
      if (gone.signal.aborted) return
      if (signal.aborted) return controller.close()
      number = fresh[0]?.number ?? number ?? 0
      const data = JSON.stringify(textOf(rowsOf(fresh)))
      const id = positionOf(run, number)
      controller.enqueue(
        encoder.encode(fresh.length === 0 ? ':\n\n' : `id: ${id}\nevent: deliveries\ndata: ${data}\n\n`),
      )
    },
    cancel: () => gone.abort(),
  })
}

function numberIn(position: string, run: string): number | undefined {
  const number = position.startsWith(`${run}-`) ? position.slice(run.length + 1) : ''
  return /^\d{1,12}$/.test(number) ? Number(number) : undefined
}
