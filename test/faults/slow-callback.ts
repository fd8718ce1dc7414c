import { checkDelivery } from '#test/support/events/delivery-check.ts'

/** Callback whose calls hang until released. */
export interface SlowCallback {
  readonly url: string
  /** Returns the number of hanging calls. */
  hanging(): number
  /** Returns the number of calls. */
  calls(): number
  /** Lets further calls hang. */
  hang(): void
  /** Answers all hanging calls, and further calls at once. */
  release(): void
  stop(): Promise<void>
}

/** Starts a callback; `onArrived` receives the id in each call's payload. */
export function startSlowCallback(onArrived: (id: string) => void): SlowCallback {
  const waiting = new Set<(answer: Response) => void>()
  let isSlow = true
  let calls = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const body = await request.text()
      checkDelivery({ headers: request.headers, body })
      const { payload } = JSON.parse(body) as { payload: { id: string } }
      calls += 1
      onArrived(payload.id)
      if (!isSlow) return new Response(null, { status: 204 })
      const { promise, resolve } = Promise.withResolvers<Response>()
      waiting.add(resolve)
      request.signal.addEventListener('abort', () => waiting.delete(resolve))
      return promise
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/`,
    hanging: () => waiting.size,
    calls: () => calls,
    hang() {
      isSlow = true
    },
    release() {
      isSlow = false
      for (const answer of waiting) answer(new Response(null, { status: 204 }))
      waiting.clear()
    },
    stop: () => server.stop(true),
  }
}
