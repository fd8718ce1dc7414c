import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Answer } from '#internal/http/index.ts'
import { securityHeaders } from './render.tsx'

/** Session of the page that opens a stream. */
interface Follower {
  readonly sessionKey: string
  /** Equal in all sessions of the actor. */
  readonly actorName: string
}

const tickMs = 3_000
/** Fraction of the interval before the first tick. Short, so that the effects of the user's last action are shown soon. */
const firstTickShare = 1 / 3
const statusMs = 1_000
const slowEvery = 5
const lifeMs = 600_000
const streamsMax = 500
const streamsPerSessionMax = 12
/**
 * Maximum open streams per actor, so that one actor cannot exhaust the process. Higher than the maximum per session, because all members of
 * a team that shares a tenant's key are one actor.
 */
const streamsPerActorMax = 60
/** Maximum number of events that are buffered for a client that does not read. */
const waitingMax = 20

export function createLiveStreams(
  options: {
    readonly everyMs?: number
    readonly statusEveryMs?: number
    /** Reads the version of the status that pages show. While this fails, streams send no `status` event. */
    readStatus?(): Promise<string>
  } = {},
) {
  const { everyMs = tickMs, statusEveryMs = statusMs, readStatus } = options
  const streams = new Map<Stream, Follower>()
  let isClosed = false
  const watch = createStatusWatch(statusEveryMs, readStatus, (version) => {
    for (const stream of streams.keys()) stream.showStatus(version)
    return streams.size > 0
  })
  return {
    /**
     * Opens a stream: `tick` after 1 s and then every 3 s, `slow` every 15 s, `status` within 1 s of a change, or at once if it changed
     * since the page was rendered. The stream ends after 10 minutes; the page then opens another one, which checks its session again.
     * Returns 503 if the session, the actor or the process has too many open streams.
     */
    open(follower: Follower, seen?: string): Answer<ReadableStream<Uint8Array<ArrayBuffer>>> | ApiError {
      const open = [...streams.values()]
      const ofActor = open.filter(({ actorName }) => actorName === follower.actorName)
      const ofSession = ofActor.filter(({ sessionKey }) => sessionKey === follower.sessionKey)
      const isTooMany = ofSession.length >= streamsPerSessionMax || ofActor.length >= streamsPerActorMax
      if (isClosed || streams.size >= streamsMax || isTooMany)
        return apiError('overloaded', 'Too many live pages are open: close some, or reload this one later', {
          'Retry-After': '10',
        })
      const body = tickingStream(everyMs, seen, (stream) => {
        streams.set(stream, follower)
        watch.start()
        return () => streams.delete(stream)
      })
      return {
        kind: 'answer',
        status: 200,
        outcome: 'live',
        body,
        headers: { ...securityHeaders, 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' },
      }
    },
    /** Ends all streams and refuses new ones, so that the server can stop. Idempotent. */
    close(): void {
      isClosed = true
      for (const stream of Array.from(streams.keys())) stream.end()
    },
    count: () => streams.size,
  }
}

interface Stream {
  end(): void
  showStatus(version: string): void
}

/** Reads the status at intervals while `onRead` returns true. Skips failed reads. */
function createStatusWatch(
  everyMs: number,
  readStatus: (() => Promise<string>) | undefined,
  onRead: (version: string) => boolean,
): { start(): void } {
  let timer: ReturnType<typeof setInterval> | undefined
  let isReading = false
  const read = async () => {
    if (isReading || readStatus === undefined) return
    isReading = true
    try {
      if (onRead(await readStatus())) return
      clearInterval(timer)
      timer = undefined
    } catch {
      // The store is unavailable, which the pages show themselves. The next read follows.
    } finally {
      isReading = false
    }
  }
  return {
    start() {
      timer ??= setInterval(() => void read(), everyMs)
    },
  }
}

/** `seen` is the version that the page shows. `register` receives the stream and returns the function to call when the stream has ended. */
function tickingStream(
  everyMs: number,
  seen: string | undefined,
  register: (stream: Stream) => () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder()
  let stop = () => {}
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        let ticks = 0
        const end = () => {
          stop()
          controller.close()
        }
        const timer = setInterval(() => {
          ticks += 1
          if (ticks * everyMs > lifeMs || (controller.desiredSize ?? 0) <= 0) {
            end()
            return
          }
          const slow = ticks % slowEvery === 0 ? 'event: slow\ndata: 1\n\n' : ''
          controller.enqueue(encoder.encode(`event: tick\ndata: 1\n\n${slow}`))
        }, everyMs)
        const first = setTimeout(
          () => controller.enqueue(encoder.encode('event: tick\ndata: 1\n\n')),
          everyMs * firstTickShare,
        )
        let shown = seen
        const showStatus = (version: string) => {
          if (version === shown) return
          // A page that sent no version is not refreshed by the first version, because it is unknown which version the page shows.
          if (shown !== undefined) controller.enqueue(encoder.encode('event: status\ndata: 1\n\n'))
          shown = version
        }
        const forget = register({ end, showStatus })
        stop = () => {
          clearTimeout(first)
          clearInterval(timer)
          forget()
        }
        // Sends some bytes immediately, because some proxies and browsers hold back the headers until the first byte of the body.
        controller.enqueue(encoder.encode(': open\n\n'))
      },
      cancel: () => stop(),
    },
    { highWaterMark: waitingMax },
  )
}
