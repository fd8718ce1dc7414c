import { until } from '#test/support/until.ts'
import { genericBody, signGeneric } from '#test/support/webhook-calls.ts'
import { EventLedger } from './event-ledger.ts'

/** Who sends where. */
export interface EventLoadOptions {
  /** The API's address, asked for each call: a restarted one has another. */
  readonly url: () => string
  readonly slug: string
  /** Senders side by side, each with one event at a time; default 16. */
  readonly senders?: number
  /** A sender's rest after an event, ms; default 5, so that other work has its turn too. */
  readonly restMs?: number
}

/** Events on their way, until it is ended. */
export interface EventLoad {
  readonly ledger: EventLedger
  /** Answers so far by status; 0: none came within 10 s, or the connection broke. */
  readonly answers: ReadonlyMap<number, number>
  /** The slowest answer so far, ms. */
  slowestMs(): number
  /** Waits until so many more were acknowledged than now. @throws after 30 s */
  untilMore(count: number, status?: 200 | 202): Promise<void>
  /** Begins no further event, and sends each that is under way until it is acknowledged. */
  end(): Promise<void>
}

const callMsMax = 10_000
const againMs = 20
const endMsMax = 30_000

/** Providers as they are: each sends one event after another, and one that is not acknowledged again and again. */
export function startEventLoad({ url, slug, senders = 16, restMs = 5 }: EventLoadOptions): EventLoad {
  const ledger = new EventLedger()
  const answers = new Map<number, number>()
  let slowest = 0
  let ending = false
  const send = async (id: string): Promise<number> => {
    const startedMs = performance.now()
    const status = await post(`${url()}/v1/t/${slug}/webhooks/generic`, id)
    answers.set(status, (answers.get(status) ?? 0) + 1)
    if (status !== 0) slowest = Math.max(slowest, performance.now() - startedMs)
    return status
  }
  const oneSender = async () => {
    while (!ending) {
      const id = crypto.randomUUID()
      ledger.sent(id)
      let status = await send(id)
      for (; status !== 200 && status !== 202; status = await send(id)) await Bun.sleep(againMs)
      ledger.acknowledged(id, status)
      await Bun.sleep(restMs)
    }
  }
  const all = Promise.all(Array.from({ length: senders }, oneSender))
  return {
    ledger,
    answers,
    slowestMs: () => slowest,
    async untilMore(count, status) {
      const from = ledger.acknowledgedCount(status)
      const what = `${count} more events that are acknowledged`
      await until(what, () => ledger.acknowledgedCount(status) >= from + count, endMsMax)
    },
    async end() {
      ending = true
      await all
    },
  }
}

/** A load's answers in words. */
export function answersOf({ answers }: EventLoad): string {
  const parts = [...answers].toSorted(([a], [b]) => a - b)
  return `answers ${parts.map(([status, count]) => `${status === 0 ? 'none' : status} ${count}`).join(', ')}`
}

async function post(url: string, id: string): Promise<number> {
  const call = signGeneric(genericBody(id))
  try {
    const answer = await fetch(url, { method: 'POST', ...call, signal: AbortSignal.timeout(callMsMax) })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}
