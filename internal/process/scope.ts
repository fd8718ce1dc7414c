import { within } from '#internal/base/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'

export interface Step<T> {
  readonly name: string
  readonly open: () => T | Promise<T>
  /** Closes the resource within `closeMsMax` and within `leftMs`, the remaining shutdown time. Errors are logged. */
  readonly close: (value: T, leftMs: number) => unknown
  /** Time limit of `close`. Default 5 s, but at most the remaining shutdown time. */
  readonly closeMsMax?: number
}

/** Resources of a process, in the order in which they were opened. */
export type Scope = Pick<OwnedScope, 'signal' | 'open' | 'stop'>

interface Opened {
  readonly name: string
  readonly close: (leftMs: number) => unknown
  readonly closeMsMax: number
}

const closeMsMaxDefault = 5000
/**
 * Minimum closing time of each resource, even after the shutdown time is over, so that a slow resource does not prevent the others from
 * closing.
 */
const lastChanceMs = 200

export class OwnedScope implements Scope {
  /** Stops the process, as SIGTERM does. A component that has failed passes its error. Idempotent. */
  readonly stop: (error?: unknown) => void
  readonly #log: Logger
  readonly #opened: Opened[] = []
  readonly #opening = new Set<Promise<unknown>>()
  readonly #ending = new AbortController()

  constructor({ log, stop }: { readonly log: Logger; readonly stop: (error?: unknown) => void }) {
    this.#log = log
    this.stop = stop
  }

  /** Aborts when shutdown starts. Pass this signal to everything that waits during start-up. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** Opens a resource and registers its closer. @throws the error of `open`, or an Error after shutdown has started */
  async open<T>(step: Step<T>): Promise<T> {
    if (this.signal.aborted)
      throw new Error(`${step.name} is not opened, because the process is shutting down`)
    const startedMs = performance.now()
    const opening = this.#openStep(step)
    this.#opening.add(opening)
    try {
      const value = await opening
      this.#log.debug({ step: step.name, durationMs: performance.now() - startedMs }, 'opened')
      return value
    } finally {
      this.#opening.delete(opening)
    }
  }

  /** Closes all resources in reverse order, each within its own time limit and all within `graceMs`. Never rejects. */
  async close(graceMs: number): Promise<void> {
    this.#ending.abort()
    const deadlineMs = performance.now() + graceMs
    // Waits for resources that are still being opened, so that they are closed with the others.
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
    const log = this.#log
    const startedMs = performance.now()
    try {
      const closing = Promise.try(part.close, leftMs).then(() => true)
      const closed = await within(Math.min(part.closeMsMax, leftMs), closing, () => false)
      const fields = { step: part.name, durationMs: performance.now() - startedMs }
      if (closed) log.debug(fields, 'closed')
      else log.warn(fields, 'step was not closed in time')
    } catch (cause) {
      log.warn({ step: part.name, cause }, 'step failed to close')
    }
  }
}
