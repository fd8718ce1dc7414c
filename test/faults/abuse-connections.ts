import { connect, type Socket } from 'node:net'
import { until } from '#test/support/until.ts'

/** Attack by connections that each send one endless request. */
export interface AttackOptions {
  readonly port: number
  /** Number of open connections; one closed by the server is reopened after about a second. */
  readonly connections: number
  /** Returns the first bytes of the n-th connection: a head and the start of its body. */
  begin(n: number): string
  /** Bytes sent on every connection each second. Default: none. */
  readonly trickle?: string
  /** Returns the local address of the n-th connection, within 127.0.0.0/8. Default: chosen by the system. */
  sourceOf?(n: number): string
}

/** Running attack. */
export interface Attack {
  /** Returns the number of open connections. */
  open(): number
  /** Counts of answers by status line. */
  readonly answers: ReadonlyMap<string, number>
  /** Closes all connections. */
  end(): void
}

/** Mean delay before reopening. */
const againMs = 1_000
const trickleMs = 1_000
const stepConnections = 100
const stepMs = 10

/** Starts an attack on 127.0.0.1 and waits until each connection has been open once. */
export async function startAttack(options: AttackOptions): Promise<Attack> {
  const { port, connections, begin, trickle, sourceOf } = options
  const sockets = new Set<Socket>()
  const answers = new Map<string, number>()
  const opened = new Set<number>()
  let ended = false
  const openOne = (n: number): void => {
    if (ended) return
    const socket = connect(
      { port, host: '127.0.0.1', ...(sourceOf && { localAddress: sourceOf(n) }) },
      () => {
        sockets.add(socket)
        opened.add(n)
        socket.write(begin(n))
      },
    )
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      const [line = ''] = bytes.toString('latin1').split('\r\n')
      answers.set(line, (answers.get(line) ?? 0) + 1)
    })
    socket.on('close', () => {
      sockets.delete(socket)
      // Reconnects at different times, so that connections that are dropped together do not reconnect together.
      setTimeout(() => openOne(n), againMs * (0.5 + (n % 100) / 100))
    })
  }
  // Opens the connections in batches that fit the server's accept queue, which is not under test.
  for (let n = 0; n < connections; n += 1) {
    openOne(n)
    if (n % stepConnections === 0) await Bun.sleep(stepMs)
  }
  const timer = setInterval(() => {
    if (trickle !== undefined) for (const socket of sockets) socket.write(trickle)
  }, trickleMs)
  await until('all connections of the attack', () => opened.size === connections)
  return {
    open: () => sockets.size,
    answers,
    end() {
      ended = true
      clearInterval(timer)
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Returns the head of a webhook to a tenant's public URL, with this Content-Length. */
export function webhookHead(slug: string, bytes: number, headers = ''): string {
  return `POST /v1/t/${slug}/webhooks/generic HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${bytes}\r\n\r\n`
}
