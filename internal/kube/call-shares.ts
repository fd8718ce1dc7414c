import type { CallShare } from './request.ts'
import { Slots } from './slots.ts'

/** Calls in flight at most, by their share. Together they stay far below what the runtime sends at once (256 by default). */
export const callsMax: Readonly<Record<CallShare, number>> = { lease: 4, list: 32, call: 28 }

/** One for each watch, and as many again. */
const waitersMax = 8_192

/** Calls in flight and waiting, at a moment. */
export type CallStats = Readonly<Record<CallShare, { readonly underWay: number; readonly waiting: number }>>

/** Bounds the calls that a process has in flight, each share by itself. */
export class CallShares {
  readonly #slots: Readonly<Record<CallShare, Slots>> = {
    lease: new Slots(callsMax.lease, waitersMax),
    list: new Slots(callsMax.list, waitersMax),
    call: new Slots(callsMax.call, waitersMax),
  }

  /** Takes a place of a share and gives what releases it; undefined after `waitMsMax`, or when the signal fires. Never rejects. */
  async take(
    share: CallShare,
    waitMsMax: number,
    signal: AbortSignal | undefined,
  ): Promise<(() => void) | undefined> {
    const over = new AbortController()
    const stop = () => over.abort()
    const timer = setTimeout(stop, waitMsMax)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop, { once: true })
    const release = await this.#slots[share].take(over.signal)
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
    return release
  }

  stats(): CallStats {
    const { lease, list, call } = this.#slots
    const of = ({ taken, waiting }: Slots) => ({ underWay: taken, waiting })
    return { lease: of(lease), list: of(list), call: of(call) }
  }
}
