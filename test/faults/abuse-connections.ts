import { connect, type Socket } from 'node:net'
import { until } from '#test/support/until.ts'

/** Connections of an attacker, each with one request that never ends. */
export interface AttackOptions {
  readonly port: number
  /** Connections kept open; one that the server ends is opened again after about a second. */
  readonly connections: number
  /** Returns the first bytes of the n-th connection: a head and the start of its body. */
  begin(n: number): string
  /** Sent on every connection each second; default nothing. */
  readonly trickle?: string
  /** Local address of the n-th connection, within 127.0.0.0/8; default: the system's choice. */
  sourceOf?(n: number): string
}

/** A running attack. */
export interface Attack {
  /** Connections that are open now. */
  open(): number
  /** First lines of answers so far, with their counts. */
  readonly answers: ReadonlyMap<string, number>
  /** Ends all connections. */
  end(): void
}

/** On average. */
const againMs = 1_000
const trickleMs = 1_000
const stepConnections = 100
const stepMs = 10

/** Starts an attack on 127.0.0.1 and waits until all its connections have been open once. */
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
      // Spread, so that those that were dropped together do not come back together.
      setTimeout(() => openOne(n), againMs * (0.5 + (n % 100) / 100))
    })
  }
  // In steps that fit the server's queue of connections, which is no part of the attack.
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

/** Head of a webhook for a tenant's public address that announces a body of so many bytes. */
export function webhookHead(slug: string, bytes: number, headers = ''): string {
  return `POST /v1/t/${slug}/webhooks/generic HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${bytes}\r\n\r\n`
}
