import { type Measured, startPrinting } from '../processes.ts'

/** Events received and repeated deliveries since the last reset. */
export interface SinkCounts {
  readonly count: number
  readonly repeated: number
}

/** Process that receives all callbacks. */
export interface Sink extends Measured {
  /** Sets whether a tenant's callback answers after 30 s, from its next call on. */
  hang(slug: string, hangs: boolean): Promise<void>
  reset(): Promise<void>
  counts(): Promise<SinkCounts>
  /** Returns the first arrival of each event by number, on the wall clock. */
  arrivals(): Promise<ReadonlyMap<number, number>>
}

/** Starts the receiver. */
export async function startSink(): Promise<Sink> {
  const measured = await startPrinting('webhooks/sink.main.ts', {})
  const url = `http://127.0.0.1:${measured.port}`
  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(`${url}${path}`, { method })
    if (!answer.ok) throw new Error(`the sink answered ${answer.status}`)
    return answer
  }
  return {
    ...measured,
    hang: async (slug, hangs) => void (await ask(`/hanging/${slug}`, hangs ? 'PUT' : 'DELETE')),
    reset: async () => void (await ask('/reset', 'POST')),
    counts: async () => (await (await ask('/counts')).json()) as SinkCounts,
    arrivals: async () => {
      const pairs = new Float64Array(await (await ask('/arrivals')).arrayBuffer())
      const byNumber = new Map<number, number>()
      for (let at = 0; at < pairs.length; at += 2) byNumber.set(pairs[at] ?? 0, pairs[at + 1] ?? 0)
      return byNumber
    },
  }
}
