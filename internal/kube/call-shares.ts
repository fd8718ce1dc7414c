import type { CallShare } from './request.ts'
import { Slots } from './slots.ts'
import { boundedSignal } from './until-aborted.ts'

/** Maximum concurrent calls per share. */
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
    const bounded = boundedSignal(signal, waitMsMax)
    const release = await this.#slots[share].take(bounded.signal)
    bounded.done()
    return release
  }

  stats(): CallStats {
    const { lease, list, call } = this.#slots
    const of = ({ taken, waiting }: Slots) => ({ underWay: taken, waiting })
    return { lease: of(lease), list: of(list), call: of(call) }
  }
}
