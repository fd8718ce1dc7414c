import { Webhook } from 'standardwebhooks'
import { poll } from '#internal/dev/index.ts'
import { checkDelivery } from './delivery-check.ts'

/** Call received by a callback. */
export interface CallbackCall {
  /** Value of `webhook-id`. */
  readonly id: string
  readonly headers: Headers
  readonly body: string
  /** True if the package `standardwebhooks` accepts the signature with the receiver's secret. */
  readonly verified: boolean
  readonly atMs: number
}

/** Answers a call; its default is 204. */
export type Answer = (call: CallbackCall) => Response | Promise<Response>

/** HTTP server that acts as a tenant's callback. */
export interface CallbackReceiver {
  readonly url: string
  /** Received calls, oldest first. */
  readonly calls: readonly CallbackCall[]
  /** Sets the answer to all later calls. */
  answer(by: Answer): void
  /** Waits for `count` calls. @throws after 15 s with the number of calls */
  received(count: number): Promise<readonly CallbackCall[]>
  stop(): Promise<void>
}

/** Signing secret in the operator's format. */
export const callbackSecret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`

/** Starts a receiver, by default on a free port. The caller stops it. */
export function startReceiver({
  secret = callbackSecret,
  port = 0,
  accepts = 'events',
}: {
  /** Secret with which `verified` checks signatures. */
  readonly secret?: string
  readonly port?: number
  /** `events`, the default: a call that does not fit the published contract fails its test. `anything`: the test says what it delivers. */
  readonly accepts?: 'events' | 'anything'
} = {}): CallbackReceiver {
  const webhook = new Webhook(secret)
  const calls: CallbackCall[] = []
  let answer: Answer = () => new Response(null, { status: 204 })
  const server = Bun.serve({
    port,
    hostname: '127.0.0.1',
    idleTimeout: 60,
    async fetch(request) {
      const body = await request.text()
      const { headers } = request
      if (accepts === 'events') checkDelivery({ headers, body })
      const id = headers.get('webhook-id') ?? ''
      const call = { id, headers, body, verified: verifies(webhook, body, headers), atMs: Date.now() }
      calls.push(call)
      return answer(call)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/hook`,
    calls,
    answer(by) {
      answer = by
    },
    async received(count) {
      const all = await poll(() => (calls.length >= count ? calls : undefined), { deadlineMs: 15_000 })
      if (all) return all
      throw new Error(`${calls.length} calls received instead of ${count}`)
    },
    stop: () => server.stop(true),
  }
}

function verifies(webhook: Webhook, body: string, headers: Headers): boolean {
  try {
    webhook.verify(body, Object.fromEntries(headers))
    return true
  } catch {
    return false
  }
}
