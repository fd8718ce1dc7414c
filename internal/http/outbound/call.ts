import type { CallResult } from './result.ts'

/** One call to a tenant's callback. */
export interface OutboundCall {
  readonly url: string
  /** The tenant's own list of non-public networks; counts inside the platform's only. */
  readonly allowedCIDRs: readonly string[]
  /** Names in lower case. `host`, `content-length`, `connection` and `accept-encoding` are set here. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** From the call until the answer's end, name resolution included. */
  readonly timeoutMs: number
  /** Ends the call; the result is `aborted`. */
  readonly signal?: AbortSignal
}

/** Calls callbacks. */
export interface Outbound {
  /**
   * Sends one POST and gives what came of it; never throws and never waits longer than `timeoutMs`. Repeating it is a new
   * request: receivers tell repeats by `webhook-id`.
   */
  send(call: OutboundCall): Promise<CallResult>
  /** Closes idle connections. Calls under way go on; repeating it is harmless. */
  close(): void
}
