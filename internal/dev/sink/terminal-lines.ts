import type { Clock } from '#internal/base/index.ts'
import type { Delivery } from './delivery.ts'

const windowMs = 1000
const linesPerWindowMax = 20
const wordCharsMax = 48

/** Prints a line for each delivery, at most 20 in a second; the rest of that second is one line with their number. */
export class TerminalLines {
  readonly #say: (line: string) => void
  readonly #clock: Clock
  #windowEndsMs = Number.NEGATIVE_INFINITY
  #printed = 0
  #skipped = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(say: (line: string) => void, clock: Clock) {
    this.#say = say
    this.#clock = clock
  }

  /** Prints the delivery's line now, or counts it. */
  show(delivery: Delivery): void {
    const nowMs = this.#clock.now()
    if (nowMs >= this.#windowEndsMs) {
      this.flush()
      this.#windowEndsMs = nowMs + windowMs
      this.#printed = 0
    }
    if (this.#printed < linesPerWindowMax) {
      this.#printed += 1
      this.#say(lineOf(delivery))
      return
    }
    this.#skipped += 1
    this.#timer ??= setTimeout(() => this.flush(), this.#windowEndsMs - nowMs).unref()
  }

  /** Prints how many were not printed, if any, and leaves no timer. Repeating it is harmless. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#skipped > 0) this.#say(`… and ${this.#skipped} more in that second`)
    this.#skipped = 0
  }
}

/** A delivery in one line of plain text, without characters that a terminal obeys. */
export function lineOf(delivery: Delivery): string {
  const { provider, type, tenant, signature, attempt, status } = delivery
  const check = signature.kind === 'ok' ? 'signature ok' : `SIGNATURE NOT OK: ${signature.reason}`
  const notes = [
    check,
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(status === 200 ? [] : [`answered ${status}`]),
  ]
  const words = `${word(provider)} ${word(type)} → ${word(tenant)}`
  return `${timeOf(delivery.receivedAtMs)} ${words}  ${word(delivery.webhookId)}  ${notes.join(', ')}`
}

/** The time of day on this machine, hh:mm:ss. */
export function timeOf(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8)
}

function word(text: string): string {
  const shown = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '').trim()
  return shown === '' ? '?' : shown.slice(0, wordCharsMax)
}
