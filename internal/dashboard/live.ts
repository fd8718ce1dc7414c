import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Answer } from '#internal/http/index.ts'
import { securityHeaders } from './security-headers.ts'

/** Owner of a stream. */
export interface Follower {
  /** What no other session has; kept while the stream is open. */
  readonly sessionKey: string
  /** Whoever it is the session of, who may have several. */
  readonly actorName: string
}

/** The pages that are told to look again. */
export interface LiveStreams {
  /**
   * Opens a stream of server-sent events for a session: `tick` each 3 s, and `slow` with each fifth of them. It ends after 10 minutes,
   * and the page asks for another, by which its session is looked at again. 503 where there are too many: of the session, of all
   * sessions of the person or key, or of the process.
   */
  open(follower: Follower): Answer<ReadableStream<Uint8Array<ArrayBuffer>>> | ApiError
  /** Ends all streams and opens no more, so that the server can stop. Repeating it is harmless. */
  close(): void
  /** For the metric. */
  count(): number
}

const tickMs = 3_000
const slowEvery = 5
const lifeMs = 600_000
const streamsMax = 500
const streamsPerSessionMax = 12
/** A key of a tenant may be shared by a whole team; one follower must not use up the process. */
const streamsPerActorMax = 60
/** What a browser that reads nothing may have waiting. */
const waitingMax = 20

/** Makes the streams of a process. */
export function createLiveStreams({ everyMs = tickMs }: { readonly everyMs?: number } = {}): LiveStreams {
  const streams = new Map<() => void, Follower>()
  let isClosed = false
  return {
    open(follower) {
      const open = [...streams.values()]
      const ofActor = open.filter(({ actorName }) => actorName === follower.actorName)
      const ofSession = ofActor.filter(({ sessionKey }) => sessionKey === follower.sessionKey)
      const isTooMany = ofSession.length >= streamsPerSessionMax || ofActor.length >= streamsPerActorMax
      if (isClosed || streams.size >= streamsMax || isTooMany)
        return apiError('overloaded', 'Too many pages are followed live', { 'Retry-After': '10' })
      const body = tickingStream(everyMs, (end) => {
        streams.set(end, follower)
        return () => streams.delete(end)
      })
      return {
        ...{ kind: 'answer', status: 200, outcome: 'live', body },
        headers: { ...securityHeaders, 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' },
      }
    },
    close() {
      isClosed = true
      for (const end of [...streams.keys()]) end()
    },
    count: () => streams.size,
  }
}

/** A stream that ticks. `register` gets what ends it, and gives what is to be done when it has ended. */
function tickingStream(
  everyMs: number,
  register: (end: () => void) => () => void,
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
        const forget = register(end)
        stop = () => {
          clearInterval(timer)
          forget()
        }
        // Without a first byte some proxies and browsers wait for the headers too.
        controller.enqueue(encoder.encode(': open\n\n'))
      },
      cancel: () => stop(),
    },
    { highWaterMark: waitingMax },
  )
}
