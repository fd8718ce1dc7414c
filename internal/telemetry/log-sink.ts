import { writeSync } from 'node:fs'

/** Destination of log lines. */
export interface LogDestination {
  /** Returns the number of bytes written without blocking, 0 if the reader is too slow. Throws only if it is permanently gone. */
  write(bytes: Uint8Array): number
}

/** Standard output, written synchronously, so that an exit loses no line. */
export const stdoutDestination: LogDestination = {
  write(bytes) {
    try {
      return writeSync(1, bytes)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return 0
      throw error
    }
  },
}

const flushAfterMs = 100
const flushAtChars = 32_768
const finishTriesMax = 50
const finishWaitMs = 10
/** Maximum bytes in the buffer for a slow reader. Further lines are dropped and counted. */
const pendingBytesMax = 4 * 1024 * 1024

/** Writes lines in batches: at 32 KiB, after 100 ms, and on `flush`. */
export class LogSink {
  readonly #destination: LogDestination
  #text = ''
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  #timer: Timer | undefined
  #dropped = 0
  #gone = false

  constructor(destination: LogDestination) {
    this.#destination = destination
  }

  /** Returns and resets the number of dropped lines. Only returns 0 while the buffer has no space for a report. */
  takeDropped(): number {
    if (this.#dropped === 0 || this.#pendingBytes >= pendingBytesMax) return 0
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** Adds a line, which must include its line feed. */
  add(line: string): void {
    if (this.#gone) return
    if (this.#pendingBytes >= pendingBytesMax) {
      this.#dropped += 1
      return
    }
    this.#text += line
    if (this.#text.length >= flushAtChars) this.flush()
    else this.#timer ??= this.#startTimer()
  }

  /** Writes the bytes that the destination accepts now, and retries the remaining bytes after 100 ms. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#text !== '') {
      const bytes = Buffer.from(this.#text)
      this.#text = ''
      this.#pending.push(bytes)
      this.#pendingBytes += bytes.length
    }
    this.#drain()
    if (this.#pending.length > 0) this.#timer = this.#startTimer()
  }

  /** Writes all bytes, and blocks for up to 500 ms if the reader is slow. For process exit only. */
  finish(): void {
    this.flush()
    for (let tries = 0; this.#pending.length > 0 && tries < finishTriesMax; tries += 1) {
      Bun.sleepSync(finishWaitMs)
      this.#drain()
    }
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #startTimer(): Timer {
    const timer = setTimeout(() => this.flush(), flushAfterMs)
    timer.unref()
    return timer
  }

  #drain(): void {
    let first = this.#pending[0]
    while (first !== undefined) {
      const written = this.#tryWrite(first)
      this.#pendingBytes -= written
      if (written < first.length) {
        if (written > 0) this.#pending[0] = first.subarray(written)
        return
      }
      this.#pending.shift()
      first = this.#pending[0]
    }
  }

  #tryWrite(bytes: Uint8Array): number {
    try {
      return this.#destination.write(bytes)
    } catch {
      // The reader is gone. Logging must not end the process.
      this.#gone = true
      this.#pending = []
      this.#pendingBytes = 0
      return bytes.length
    }
  }
}

const colours: Readonly<Record<string, string>> = {
  debug: '\x1b[2m',
  info: '\x1b[36m',
  warn: '\x1b[33m',
  error: '\x1b[31m',
}
const reset = '\x1b[0m'

/** Formats a line for a terminal: time, level, text and fields as `name=value`, followed by stack traces. */
export function prettyLine(line: Readonly<Record<string, unknown>>): string {
  const { time, level, service: _service, version: _version, msg, ...fields } = line
  const stacks: string[] = []
  const parts = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${short(value, stacks)}`)
  const head = `${String(time).slice(11, 23)} ${colours[String(level)] ?? ''}${String(level).padEnd(5)}${reset} ${String(msg)}`
  return `${[head, ...parts].join(' ')}\n${stacks.map((stack) => `    ${stack}\n`).join('')}`
}

function short(value: unknown, stacks: string[]): string {
  if (typeof value === 'string') return /[\s"=]/.test(value) || value === '' ? JSON.stringify(value) : value
  if (typeof value === 'number' && !Number.isInteger(value)) return value.toFixed(2)
  if (typeof value !== 'object' || value === null) return String(value)
  if ('stack' in value && typeof value.stack === 'string' && 'message' in value) {
    stacks.push(value.stack.replaceAll('\n', '\n    '))
    return JSON.stringify(value.message)
  }
  return JSON.stringify(value)
}
