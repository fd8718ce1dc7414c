import { setTimeout as pause } from 'node:timers/promises'
import { type ApiClient, reasonText } from './api-client.ts'
import { exitCodes, type Problem } from './cli.ts'

export interface StreamedEvent {
  /** Id that acknowledges this event and all earlier events. */
  readonly streamId: string
  /** JSON of the event, as a callback receives it. */
  readonly text: string
}

/** Maximum characters of an event, which fits the largest payload. */
const eventCharsMax = 32 * 1024 * 1024
/** Maximum silence before a reconnection: longer than the 20 s between heartbeats of the service. */
const silenceMsMax = 60_000
const firstPauseMs = 500
const pauseMsMax = 15_000
/** Problems that another attempt does not solve. Excludes a lease of another process, because the lease ends by itself. */
const lasting: ReadonlySet<Problem['exitCode']> = new Set([exitCodes.notFound, exitCodes.refused])

/** Yields events of a subscription, reconnecting until the signal aborts. @returns the problem that ends it; undefined after the signal */
export async function* followEvents(options: {
  readonly api: ApiClient<'public'>
  readonly subscription: string
  /** Called with the reason when the connection is lost, and with undefined when it is open. */
  onState(problem: (Problem & { readonly code?: string | undefined }) | undefined): void
  readonly signal: AbortSignal
}): AsyncGenerator<StreamedEvent, Problem | undefined> {
  const { api, subscription, onState, signal } = options
  let lastId = ''
  let pauseMs = firstPauseMs
  while (!signal.aborted) {
    const silence = new AbortController()
    const opened = await api.openStream(subscription, lastId, AbortSignal.any([signal, silence.signal]))
    if (signal.aborted) return undefined
    if (opened.kind === 'problem') {
      if (lasting.has(opened.exitCode)) return opened
      onState(opened)
    } else {
      onState(undefined)
      try {
        for await (const event of parseEvents(opened.body, silence)) {
          yield event
          lastId = event.streamId
          pauseMs = firstPauseMs
        }
      } catch (error) {
        if (signal.aborted) return undefined
        const why = silence.signal.aborted
          ? `nothing was received for ${silenceMsMax / 1000} s`
          : reasonText(error)
        onState({ problem: `The connection was lost: ${why}` })
      }
    }
    // An abort ends the pause early, without an error.
    await pause(pauseMs, undefined, { signal }).catch(() => undefined)
    pauseMs = Math.min(pauseMs * 2, pauseMsMax)
  }
  return undefined
}

/** Implements https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11). */
async function* parseEvents(
  body: ReadableStream<Uint8Array>,
  silence: AbortController,
): AsyncGenerator<StreamedEvent> {
  const decoder = new TextDecoder()
  const expectNoise = () => setTimeout(() => silence.abort(), silenceMsMax)
  let timer = expectNoise()
  let rest = ''
  try {
    for await (const bytes of body) {
      clearTimeout(timer)
      const blocks = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      if (rest.length > eventCharsMax) throw new Error(`an event exceeds ${eventCharsMax} characters`)
      for (const block of blocks) {
        const lines = block.split('\n')
        const valuesOf = (name: string) =>
          lines.flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []))
        const [streamId] = valuesOf('id')
        if (streamId !== undefined) yield { streamId, text: valuesOf('data').join('\n') }
      }
      // Restarts the timer after the events are handled, because handling many events can take longer than `silenceMsMax`.
      timer = expectNoise()
    }
  } finally {
    clearTimeout(timer)
  }
}
