import { type ConnectPath, connect } from './connect.ts'
import { Connection } from './connection.ts'

/** Where to connect to, and as whom the far side must show itself: what a connection may be used again for. */
export interface Endpoint {
  /** Judged; never a name. */
  readonly address: string
  readonly port: number
  /** What the certificate must be valid for; none for plain HTTP. */
  readonly tlsName: string | undefined
}

/** Servers commonly close an idle connection after 5 s (Node's own default); this is before that. */
const idleMs = 4000
const sweepMs = 1000
/** As many as one tenant has calls under way in a process. */
const idlePerEndpointMax = 64
/** Above it a connection is closed after its answer, so that many callbacks do not hold all of a process' descriptors. */
const openMax = 2048

/** Connections to callbacks. Idle ones are kept for 4 s, at most 64 for one endpoint, and used again for the same one only. */
export class Connections {
  readonly #path: ConnectPath
  readonly #idle = new Map<string, Connection[]>()
  #open = 0
  #sweeping: Timer | undefined

  constructor(path: ConnectPath) {
    this.#path = path
  }

  /** One that is idle; undefined when there is none. */
  takeIdle(endpoint: Endpoint): Connection | undefined {
    const idle = this.#idle.get(keyOf(endpoint))
    // The youngest first, so that those which are not needed grow old.
    for (let one = idle?.pop(); one !== undefined; one = idle?.pop()) if (one.isUsable) return one
    return undefined
  }

  /** A new one. @throws ConnectError, within `timeoutMs` */
  async open(endpoint: Endpoint, timeoutMs: number): Promise<Connection> {
    const socket = await connect({ ...endpoint, timeoutMs }, this.#path)
    this.#open += 1
    return new Connection(socket, (connection) => this.#forget(endpoint, connection))
  }

  /** Keeps one whose answer is whole for others, or closes it where there are enough. */
  keep(endpoint: Endpoint, connection: Connection): void {
    connection.use(undefined)
    const key = keyOf(endpoint)
    const idle = this.#idle.get(key) ?? []
    if (this.#open > openMax || idle.length >= idlePerEndpointMax || !connection.isUsable) {
      connection.close()
      return
    }
    connection.idleSinceMs = performance.now()
    idle.push(connection)
    this.#idle.set(key, idle)
    this.#sweeping ??= setInterval(() => this.#sweep(), sweepMs).unref()
  }

  /** Closes those that are idle; repeating it is harmless. */
  close(): void {
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
    for (const idle of this.#idle.values()) for (const one of idle) one.close()
    this.#idle.clear()
  }

  #sweep(): void {
    const sinceMs = performance.now() - idleMs
    for (const [key, idle] of this.#idle) {
      // The longest idle stand first.
      while (idle[0] && idle[0].idleSinceMs <= sinceMs) idle.shift()?.close()
      if (idle.length === 0) this.#idle.delete(key)
    }
    if (this.#idle.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #forget(endpoint: Endpoint, connection: Connection): void {
    this.#open -= 1
    const idle = this.#idle.get(keyOf(endpoint))
    const at = idle?.indexOf(connection) ?? -1
    if (at >= 0) idle?.splice(at, 1)
  }
}

function keyOf({ address, port, tlsName }: Endpoint): string {
  return `${tlsName ?? ''} ${port} ${address}`
}
