/** Settles as `pending` does, or rejects as soon as the signal fires; for work that knows no signal of its own. */
export function untilAborted<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new Error('aborted'))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    pending.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** A signal that fires with another or after a time; `stop` fires it, `done` removes the timer and the listener. */
export function boundedSignal(signal: AbortSignal | undefined, msMax: number) {
  const ended = new AbortController()
  const stop = () => ended.abort('aborted by the caller')
  const timer = setTimeout(() => ended.abort(`timed out after ${Math.round(msMax)} ms`), msMax)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const done = () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
  return { signal: ended.signal, stop, done }
}

/** Text for a failure of an aborted call: a time-out or the caller. */
export function whyAborted({ reason }: AbortSignal): string {
  return typeof reason === 'string' ? reason : 'aborted by the caller'
}
