import { within } from '#internal/base/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'

/** One thing that a process opens. */
export interface Step<T> {
  /** Names the step in the log. */
  readonly name: string
  readonly open: () => T | Promise<T>
  /** Ends what `open` gave. Bounded by `closeMsMax` and by `leftMs` of the process' time; what it throws is logged. */
  readonly close: (value: T, leftMs: number) => unknown
  /** Default 5 s, and never more than is left of the process' time. */
  readonly closeMsMax?: number
}

/** What a process has opened, in order. */
export interface Scope {
  /** Fires when the process begins to end; give it to whatever waits during the start. */
  readonly signal: AbortSignal
  /** Opens one thing and remembers how to close it. @throws what `open` throws, and when the process is ending already */
  open<T>(step: Step<T>): Promise<T>
  /** Ends the process as a signal would; for a part that cannot go on, give the error. Repeating it is harmless. */
  stop(error?: unknown): void
}

/** What ends a scope. */
export interface ScopeOptions {
  readonly log: Logger
  readonly stop: (error?: unknown) => void
}

interface Opened {
  readonly name: string
  readonly close: (leftMs: number) => unknown
  readonly closeMsMax: number
}

const closeMsMaxDefault = 5000
/** What each part gets even when the process' time is over, so that one slow part does not rob the others. */
const lastChanceMs = 200

/** A scope with its owner's right to close it. */
export class OwnedScope implements Scope {
  readonly #options: ScopeOptions
  readonly #opened: Opened[] = []
  readonly #opening = new Set<Promise<unknown>>()
  readonly #ending = new AbortController()

  constructor(options: ScopeOptions) {
    this.#options = options
  }

  get signal(): AbortSignal {
    return this.#ending.signal
  }

  async open<T>(step: Step<T>): Promise<T> {
    if (this.signal.aborted) throw new Error(`${step.name} is not opened: the process is ending`)
    const startedMs = performance.now()
    const opening = this.#openStep(step)
    this.#opening.add(opening)
    try {
      const value = await opening
      this.#options.log.debug({ step: step.name, durationMs: performance.now() - startedMs }, 'opened')
      return value
    } finally {
      this.#opening.delete(opening)
    }
  }

  stop(error?: unknown): void {
    this.#options.stop(error)
  }

  /** Closes everything in reverse order, each within its bound and all within `graceMs`. Never rejects. */
  async close(graceMs: number): Promise<void> {
    this.#ending.abort()
    const deadlineMs = performance.now() + graceMs
    // A step under way may still open something; it joins the list and is closed with the others.
    await within(closeMsMaxDefault, Promise.allSettled(this.#opening), () => undefined)
    for (let part = this.#opened.pop(); part; part = this.#opened.pop()) {
      const leftMs = Math.max(deadlineMs - performance.now(), lastChanceMs)
      await this.#closePart(part, leftMs)
    }
  }

  async #openStep<T>(step: Step<T>): Promise<T> {
    const value = await step.open()
    const { name, closeMsMax = closeMsMaxDefault } = step
    this.#opened.push({ name, closeMsMax, close: (leftMs) => step.close(value, leftMs) })
    return value
  }

  async #closePart(part: Opened, leftMs: number): Promise<void> {
    const { log } = this.#options
    const startedMs = performance.now()
    try {
      const closing = Promise.try(part.close, leftMs).then(() => true)
      const closed = await within(Math.min(part.closeMsMax, leftMs), closing, () => false)
      const fields = { step: part.name, durationMs: performance.now() - startedMs }
      if (closed) log.debug(fields, 'closed')
      else log.warn(fields, 'not closed in time')
    } catch (cause) {
      log.warn({ step: part.name, cause }, 'closing failed')
    }
  }
}
