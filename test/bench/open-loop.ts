import { answerLength } from './load.ts'

/** Open-loop load: calls at a fixed rate, regardless of answers. */
export interface OpenLoopOptions {
  readonly port: number
  /** Calls per second, evenly spaced. */
  readonly perSecond: number
  readonly durationMs: number
  readonly connections: number
  /** Returns the text of the n-th HTTP/1.1 request, with keep-alive. */
  request(n: number): string
}

/** Call with times of `performance.now()`. */
export interface Call {
  /** Scheduled time of sending; the actual one is later if server or generator is overloaded. */
  readonly dueAt: number
  /** Undefined without an answer. */
  answeredAt: number | undefined
  readonly ok: boolean
}

const answersMsMax = 15_000
/** Interval of sending: timers have a resolution of 1 ms, so calls due within it are sent together. */
const tickMs = 1

/**
 * Sends calls at a fixed rate over kept-alive connections, one call at a time on each, and waits up to 15 s for the last answers.
 * Latency counts from the scheduled time, including the wait for a free connection. Returns the calls in order.
 */
export async function runOpenLoop(options: OpenLoopOptions): Promise<readonly Call[]> {
  const total = Math.floor((options.perSecond * options.durationMs) / 1000)
  const calls: Call[] = []
  const waiting: number[] = []
  let answered = 0
  const connections = new ConnectionPool(options.port, options.connections, () => {
    const n = waiting.shift()
    if (n !== undefined) send(n)
  })
  const send = (n: number) => {
    const isSent = connections.send(options.request(n), (ok) => {
      const call = calls[n]
      if (call) calls[n] = { dueAt: call.dueAt, answeredAt: ok ? performance.now() : undefined, ok }
      answered += 1
    })
    if (!isSent) waiting.push(n)
  }
  await connections.open()
  const startedAt = performance.now()
  while (calls.length < total) {
    const due = Math.min(total, Math.ceil(((performance.now() - startedAt) / 1000) * options.perSecond))
    while (calls.length < due) {
      const n = calls.length
      calls.push({ dueAt: startedAt + (n * 1000) / options.perSecond, answeredAt: undefined, ok: false })
      send(n)
    }
    await Bun.sleep(tickMs)
  }
  const deadline = performance.now() + answersMsMax
  while (answered < total && performance.now() < deadline) await Bun.sleep(tickMs)
  connections.close()
  return calls
}

type OnAnswer = (ok: boolean) => void

/** Kept-alive connection, with its call in flight as data. */
type Connection = Bun.Socket<{ pending: string; onAnswer: OnAnswer | undefined }>

/** Pool of connections, used last-in first-out, so that a low rate uses few of them; the server closes idle ones. */
class ConnectionPool {
  readonly #port: number
  readonly #count: number
  readonly #onIdle: () => void
  readonly #idle: Connection[] = []
  #closed = false

  /** @param onIdle called when a connection becomes free */
  constructor(port: number, count: number, onIdle: () => void) {
    this.#port = port
    this.#count = count
    this.#onIdle = onIdle
  }

  async open(): Promise<void> {
    await Promise.all(Array.from({ length: this.#count }, () => this.#openOne()))
  }

  /** Sends a call; returns false if no connection is free. A broken connection ends its call as failed. */
  send(text: string, onAnswer: OnAnswer): boolean {
    const connection = this.#idle.pop()
    if (!connection) return false
    connection.data.onAnswer = onAnswer
    if (connection.write(text) !== Buffer.byteLength(text))
      throw new Error('the request did not fit the socket buffer')
    return true
  }

  close(): void {
    this.#closed = true
    for (const connection of this.#idle) connection.end()
  }

  async #openOne(): Promise<void> {
    const connection = await Bun.connect<Connection['data']>({
      hostname: '127.0.0.1',
      port: this.#port,
      data: { pending: '', onAnswer: undefined },
      socket: {
        data: (socket, chunk) => this.#read(socket, chunk),
        close: (socket) => this.#replace(socket),
      },
    })
    this.#giveBack(connection)
  }

  #read(connection: Connection, chunk: Buffer): void {
    const { data } = connection
    data.pending += chunk.toString('latin1')
    const { pending, onAnswer } = data
    if (pending.length < answerLength(pending)) return
    data.pending = ''
    data.onAnswer = undefined
    onAnswer?.(pending.startsWith('HTTP/1.1 200'))
    this.#giveBack(connection)
  }

  #giveBack(connection: Connection): void {
    if (this.#closed) return void connection.end()
    this.#idle.push(connection)
    this.#onIdle()
  }

  #replace(connection: Connection): void {
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    connection.data.onAnswer?.(false)
    connection.data.onAnswer = undefined
    // Ignores a failed connection, because the calls to an ended server are counted as unanswered.
    if (!this.#closed) this.#openOne().catch(() => undefined)
  }
}
