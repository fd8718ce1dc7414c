/** Waits `ms`, or until the signal fires if that is sooner. Never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

/** Sleep on the machine's own timers. */
export const sleep: Sleep = (ms, signal) => {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
  })
}
