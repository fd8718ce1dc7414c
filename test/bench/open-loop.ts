import { answerLength } from './load.ts'

/** A load that does not wait for its answers. */
export interface OpenLoopOptions {
  readonly port: number
  /** Calls a second, evenly. */
  readonly perSecond: number
  readonly durationMs: number
  readonly connections: number
  /** The whole text of the n-th HTTP/1.1 request, keep-alive. */
  request(n: number): string
}

/** One call; times are those of `performance.now()`. */
export interface Call {
  /** When it should have been sent: later it is only because the server, or we, could not keep up. */
  readonly dueAt: number
  /** Undefined while there was no answer. */
  answeredAt: number | undefined
  readonly ok: boolean
}

const answersMsMax = 15_000
/** Timers are a millisecond exact at best: what fell due in between goes together. */
const tickMs = 1

/**
 * Sends calls at a fixed rate over kept connections, a call at a time on each, and waits up to 15 s for the last answers. A call
 * that finds all connections taken waits for one, and that counts: its time runs from when it was due. Gives the calls in order.
 */
export async function runOpenLoop(options: OpenLoopOptions): Promise<readonly Call[]> {
  const total = Math.floor((options.perSecond * options.durationMs) / 1000)
  const calls: Call[] = []
  const waiting: number[] = []
  let answered = 0
  const idle: Connection[] = []
  const onIdle = (connection: Connection) => {
    const n = waiting.shift()
    if (n === undefined) idle.push(connection)
    else send(connection, n)
  }
  const send = (connection: Connection, n: number) => {
    connection.send(options.request(n), (ok) => {
      const call = calls[n]
      if (call) calls[n] = { dueAt: call.dueAt, answeredAt: performance.now(), ok }
      answered += 1
      onIdle(connection)
    })
  }
  const connections = await Promise.all(
    Array.from({ length: options.connections }, () => openConnection(options.port)),
  )
  idle.push(...connections)
  const startedAt = performance.now()
  while (calls.length < total) {
    const due = Math.min(total, Math.ceil(((performance.now() - startedAt) / 1000) * options.perSecond))
    while (calls.length < due) {
      const n = calls.length
      calls.push({ dueAt: startedAt + (n * 1000) / options.perSecond, answeredAt: undefined, ok: false })
      const connection = idle.shift()
      if (connection) send(connection, n)
      else waiting.push(n)
    }
    await Bun.sleep(tickMs)
  }
  const deadline = performance.now() + answersMsMax
  while (answered < total && performance.now() < deadline) await Bun.sleep(tickMs)
  for (const connection of connections) connection.close()
  return calls
}

/** A kept connection with one call at a time on it. */
interface Connection {
  send(text: string, onAnswer: (ok: boolean) => void): void
  close(): void
}

async function openConnection(port: number): Promise<Connection> {
  let pending = ''
  let settle: ((ok: boolean) => void) | undefined
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_socket, chunk) {
        pending += chunk.toString('latin1')
        if (pending.length < answerLength(pending)) return
        const ok = pending.startsWith('HTTP/1.1 200')
        pending = ''
        const settled = settle
        settle = undefined
        settled?.(ok)
      },
      // A connection that broke answers nothing more: its call and those behind it stay unanswered and are counted.
      close: () => undefined,
      error: () => undefined,
    },
  })
  return {
    send(text, onAnswer) {
      settle = onAnswer
      if (socket.write(text) !== Buffer.byteLength(text))
        throw new Error('the request did not fit the socket buffer')
    },
    close: () => socket.end(),
  }
}
