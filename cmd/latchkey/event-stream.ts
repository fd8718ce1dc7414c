import { setTimeout as pause } from 'node:timers/promises'
import { type ApiClient, reasonText } from './api-client.ts'
import { exitCodes, type Problem } from './cli.ts'

export interface StreamedEvent {
  /** Id that acknowledges the event and all before it. */
  readonly streamId: string
  /** The event as a callback receives it: JSON text. */
  readonly text: string
}

/** Maximum characters of an event, which fit the largest payload. */
const eventCharsMax = 32 * 1024 * 1024
/** The service sends a heartbeat every 20 s at least. */
const silenceMsMax = 60_000
const firstPauseMs = 500
const pauseMsMax = 15_000
/** Problems that another attempt does not solve. A held lease ends by itself. */
const lasting: ReadonlySet<Problem['exitCode']> = new Set([exitCodes.notFound, exitCodes.refused])

/** Follows a subscription. Reconnects until the signal aborts. @returns why it cannot go on, or undefined after the signal */
export async function* followEvents(options: {
  readonly api: ApiClient<'public'>
  readonly subscription: string
  /** Called when the connection is lost, with the reason, and when it is open. */
  onState(problem: (Problem & { readonly code?: string | undefined }) | undefined): void
  /** Ends the events. */
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
    // An abort ends the pause.
    await pause(pauseMs, undefined, { signal }).catch(() => undefined)
    pauseMs = Math.min(pauseMs * 2, pauseMsMax)
  }
  return undefined
}

/** Parses server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11). */
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
      // Starts when the events are handled, since the handling of many can take longer.
      timer = expectNoise()
    }
  } finally {
    clearTimeout(timer)
  }
}
